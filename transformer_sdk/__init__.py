"""What every model server of this project is built from: the protocols, the HTTP server, the error classes.

Nothing in here knows Kubernetes or TorchServe; a runtime brings its own dataplane and its own endpoints.
"""
