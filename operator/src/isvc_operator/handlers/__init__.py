"""The only package that imports kopf: watches feed the cache and the queue, nothing more happens in a handler."""
