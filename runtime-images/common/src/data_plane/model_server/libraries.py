"""Environment variables for the libraries that models use, where they are not set already."""

from __future__ import annotations

import re
import warnings

from data_plane.model_server import memory

# Beginnings of warnings of torch: about nvgpu's use of pynvml, which users cannot change, and about TorchScript, which
# is served all the same.
_WARNINGS = ("The pynvml package is deprecated", "`torch.jit.")

ENVIRONMENT = {
    **memory.ENVIRONMENT,
    # Otherwise, torch's waiting threads would spin on processors that the server needs.
    "OMP_WAIT_POLICY": "PASSIVE",
    # onnxruntime would send the names and digests of models to its authors, since 1.29 on Linux as well.
    "ORT_DISABLE_TELEMETRY": "1",
    # Nothing forks without exec here; gRPC would write a line whenever a process is started.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "PYTHONWARNINGS": ",".join(f"ignore:{warning}:FutureWarning" for warning in _WARNINGS),
}


def ignore_warnings() -> None:
    """Do what PYTHONWARNINGS does, in a process that has started without it."""
    for warning in _WARNINGS:
        warnings.filterwarnings("ignore", re.escape(warning), FutureWarning)
