"""Runs TorchServe in a pod: writes its configuration, starts and watches it, and receives all its requests.

The protocols and the queues are `data_plane`'s, and what a model directory holds is `torchserve_compat`'s.

__main__          flags and environment → Service; errors → exit code and termination message
rules             what is changed in config.properties, one rule a function (pure)
batching          how large batches may be, and what makes TorchServe not wait for them (pure)
archive_settings  the YAML in an archive
launch            the work directory and the command line of TorchServe
ports             TorchServe's ports on loopback
process           the TorchServe process: its log, its death, its end
client            the only sockets to TorchServe
transport         sends a batch as one request
watch             which models are ready, according to TorchServe
failure_reports   why a worker failed
served            the versions that it serves, each with its queue
management        models that are registered at run time
supervisor        all of it, from start to exit
worker            what runs inside TorchServe's Python workers
"""
