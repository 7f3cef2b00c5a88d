"""What a server says of itself in the v2 protocol, over HTTP and gRPC."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

EXTENSIONS = ("model_repository_extension", "binary_tensor_data")

# The SDK is in the first for the runtimes, and by itself in the images of transformers.
_DISTRIBUTIONS = ("isvc-operator", "isvc-transformer-sdk")


def server_version() -> str:
    """The installed version; a checkout that was never installed has none."""
    for distribution in _DISTRIBUTIONS:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"
