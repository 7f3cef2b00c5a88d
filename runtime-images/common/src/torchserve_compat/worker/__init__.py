"""The worker's half of a handler: load it, run a batch on it, and return its results. Runs in the worker process."""
