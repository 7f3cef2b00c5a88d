"""Runs TorchServe in a pod: writes the configuration it needs, starts and watches it, and is its only door.

The protocols and the queues are `data_plane`'s, and what a model directory holds is `torchserve_compat`'s.

__main__          flags and environment → Service; errors → exit code and termination message
rules             what is changed in config.properties, one rule a function (pure)
batching          how large batches may be, and what makes TorchServe not wait for them (pure)
archive_settings  the YAML in an archive
launch            the work directory and the command line of TorchServe
ports             TorchServe's ports on loopback
process           the TorchServe process: its log, its death, its end
client            the only sockets to TorchServe
transport         a batch is one request; what becomes of it
watch             which models can answer, asked of TorchServe
served            the versions that it serves, as models behind queues
management        models that come and go while it runs
supervisor        all of it together, from start to exit
worker            what runs inside TorchServe's Python workers
"""
