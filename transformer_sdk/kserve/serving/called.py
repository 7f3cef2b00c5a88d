"""Adapter for a model that has no hooks, only `__call__`."""

from __future__ import annotations

from typing import Any

from transformer_sdk.kserve.hooks import done
from transformer_sdk.kserve.model import InferenceModel, InferenceVerb, Model, Payload


class CalledModel(Model):
    """A model that calls another as KServe does; the other reports whether it is ready."""

    def __init__(self, model: InferenceModel) -> None:
        super().__init__(model.name)
        self._model = model

    async def __call__(
        self,
        body: Payload,
        headers: dict[str, str] | None = None,
        verb: InferenceVerb = InferenceVerb.PREDICT,
    ) -> Any:
        if verb is InferenceVerb.EXPLAIN:
            return await done(self._model(body, headers=headers, verb=verb))
        return await done(self._model(body, headers=headers))

    def get_input_types(self) -> Any:
        return self._model.get_input_types()

    def get_output_types(self) -> Any:
        return self._model.get_output_types()
