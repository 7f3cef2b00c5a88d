"""The cache of watched objects, and what fills it: kopf lists and watches through a session of ours."""
