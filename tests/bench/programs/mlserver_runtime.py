"""The work as a runtime of MLServer. Its batching joins requests along the first dimension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import handling
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Runtime(MLModel):
    async def load(self) -> bool:
        self._handle = handling.load(self.name, Path(self.settings.parameters.uri))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        answers = self._handle([{"data": data} for data in _instances(payload.inputs[0])])
        output = ResponseOutput(name="predictions", shape=[len(answers)], datatype="INT64", data=answers)
        return InferenceResponse(model_name=self.name, outputs=[output])


def _instances(tensor: Any) -> list[Any]:
    values = tensor.data.root
    size = len(values) // tensor.shape[0]
    return values if size == 1 else [values[start : start + size] for start in range(0, len(values), size)]
