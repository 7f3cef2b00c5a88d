"""The handler in every archive of the benchmark, for TorchServe and for what runs TorchServe's archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import handling


class Handler:
    def initialize(self, context: Any) -> None:
        folder = Path(context.system_properties["model_dir"])
        self._handle = handling.load(context.manifest["model"]["modelName"], folder)

    def handle(self, requests: list[dict[str, Any]], context: Any) -> list[Any]:
        # With the kserve envelope these are the instances; without one, each request has its own in its body.
        return self._handle([request.get("body", request) for request in requests])
