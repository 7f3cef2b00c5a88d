"""The operator on kopf: its start and end, what each change does to the cache and the queue, configuration, probes."""
