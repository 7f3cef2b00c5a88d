"""Models of the SDK whose hooks tests look through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.predictor_config import PredictorConfig

Headers = dict[str, str] | None
NOBODY = PredictorConfig("127.0.0.1:1")


class Ready(Model):
    def __init__(self, name: str = "m", **more: Any) -> None:
        super().__init__(name, **more)
        self.ready = True


class Doubling(Ready):
    def preprocess(self, payload: Any, headers: Headers = None) -> Any:
        return {"instances": [2 * one for one in payload["instances"]]}


class Naming(Ready):
    async def postprocess(self, result: Any, headers: Headers = None) -> Any:
        return {"predictions": [str(one) for one in result["predictions"]]}


class Predicting(Ready):
    """By whatever a test says, in place of a predictor."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self.answer = answer

    def predict(self, payload: Any, headers: Headers = None) -> Any:
        return self.answer(payload)


class WithHeaders(Ready):
    """Its own call gives these headers with its result."""

    def __init__(self, result: Any, headers: dict[str, str]) -> None:
        super().__init__("m")
        self.given = result, headers

    async def __call__(self, body: Any, headers: Headers = None, verb: Any = None) -> Any:
        return self.given
