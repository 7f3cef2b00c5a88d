"""The runtime without Java: serves .mar archives and model files in worker processes of its own.

The protocols and the queues are `data_plane`'s, and what a model directory holds is `torchserve_compat`'s.

cli            flags and environment → one server; errors → exit code and termination message
server         what a model directory holds, served until a signal
models         models in service: started, watched, loaded and unloaded
configuration  what is to be served, and how
archives       unpack archives, and install what they require
pool           the workers of a model, seen from the server: pools, restarts, connections
worker         what runs where the handler is
engines        model files without a handler
metrics        metrics that handlers report, and those of the start
resources      GPUs, threads and memory of the machine
limits         bounds of this runtime
"""
