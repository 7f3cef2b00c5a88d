"""The metadata of the server in the v2 protocol, over HTTP and gRPC."""

from __future__ import annotations

EXTENSIONS = ("model_repository_extension", "binary_tensor_data")
