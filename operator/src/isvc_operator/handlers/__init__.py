"""Runs the operator: what watches report reaches the cache and the queue; configuration, probes and metrics."""
