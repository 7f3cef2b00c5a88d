"""TorchServe's model store, settings and handler contract, for both runtimes.

`store` reads a model directory. `frames` and `wire` are what travels between the server and the worker process that
runs a handler, `tensors` and `values` what is in it; `server` and `worker` are the two ends.
"""
