"""The gRPC server: the Open Inference Protocol and TorchServe's API, for the same models as the HTTP endpoints."""
