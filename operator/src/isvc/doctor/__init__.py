"""``isvc doctor``: whether a cluster has what services need, and what to do where it has not.

``judge`` is pure: it judges what was read. ``examine`` reads it, with the caller's own rights.
"""
