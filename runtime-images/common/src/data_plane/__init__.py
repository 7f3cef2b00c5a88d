"""The data plane: the protocols, the server, the client, batching, and the lifecycle of a model server.

Nothing in here knows Kubernetes, TorchServe or KServe's SDK; a runtime brings its own models.
"""

__version__ = "0.2.0"
