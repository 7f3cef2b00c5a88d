"""The only package that imports kopf. Handlers do no more than update the cache and add to the queue."""
