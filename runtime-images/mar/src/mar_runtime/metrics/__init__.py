"""Metrics that handlers report: defined, collected in the worker, and exposed to Prometheus."""
