"""What of a service, a runtime or the ConfigMap has no effect: accepted, and named with what happens instead. Pure.

``table`` has what is known and not used, ``walker`` finds it, and what is unknown, in objects. What has no effect only
beside a certain runtime or setting is found by ``resolve.ignored``.
"""
