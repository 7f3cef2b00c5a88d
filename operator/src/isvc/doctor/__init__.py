"""``isvc doctor``: whether a cluster has what services need, and what to do where it has not.

``checks`` is pure: it checks what was read. ``examine`` reads it, with the caller's own rights.
"""
