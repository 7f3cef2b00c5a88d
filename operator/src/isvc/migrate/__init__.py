"""``isvc migrate``: changes a cluster over from KServe's controller to this operator, and back.

``plan`` and ``checks`` are pure: they compare what KServe has made with what would be rendered. ``read``, ``steps``,
``handover`` and ``kserve`` send requests; ``changeover`` puts the steps in order.
"""
