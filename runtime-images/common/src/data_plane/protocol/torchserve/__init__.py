"""TorchServe's own inference API over gRPC."""
