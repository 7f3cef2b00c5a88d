"""What a server says of itself in the v2 protocol, over HTTP and gRPC."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

EXTENSIONS = ("model_repository_extension", "binary_tensor_data")


def server_version() -> str:
    """The installed version; a checkout that was never installed has none."""
    try:
        return version("isvc-operator")
    except PackageNotFoundError:
        return "unknown"
