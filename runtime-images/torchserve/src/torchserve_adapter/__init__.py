"""Runs TorchServe in a pod: writes the configuration it needs, starts and watches it, and is its only door.

__main__    flags and environment → Settings; errors → exit code and termination message
properties  the user's config.properties → the effective one and the list of changes (pure)
rules       what is changed, one rule a function (pure)
snapshot    what a model_snapshot lacks (pure)
models      which models the configuration asks for (pure)
archives    the .mar files of a model store
launch      the work directory and the command line of TorchServe
process     the TorchServe process: its log, its death, its end
client      the only socket to TorchServe
readiness   which models can answer, asked of TorchServe
endpoints   the HTTP surface
supervisor  all of it together, from start to exit
worker      the one file that runs inside TorchServe's Python workers
"""
