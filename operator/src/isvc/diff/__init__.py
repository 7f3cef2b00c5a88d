"""``isvc diff``: what applying files would change in a cluster, and what the operator would then change.

``changes`` is pure: what differs between two versions of an object, as people and programs read it. ``dry_run`` asks
the API server what it would store (server-side dry runs), and decides about each service as the operator does.
"""
