"""Runs inside TorchServe's Python workers: TorchServe's own worker, with two things made right.

- `V1Envelope` stands in for TorchServe's `kserve` envelope: it serves every request of a TorchServe batch (TorchServe's
  reads the first and fails all), and tells the client what the handler raised instead of "Prediction failed".
- A model that cannot be loaded leaves its reason in a file for the adapter.

This file is copied into TorchServe's home in the adapter's work directory, in the place of `model_service_worker.py`.
It stands alone: a user's archive comes first on the worker's path, so nothing of the adapter is imported here.
"""

from __future__ import annotations

import json
import os
import runpy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from ts.model_loader import ModelLoaderFactory, TsModelLoader  # type: ignore[import-untyped]
from ts.utils.util import PredictionException  # type: ignore[import-untyped]

_HOME = Path(__file__).resolve().parents[1]
_FAILURES = _HOME.parent / "failures"
_DUMP_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS

Handle = Callable[[list[Any], Any], Any]


class V1Envelope:
    """Between TorchServe's batch of requests and the handler's list of instances."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def handle(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """One encoded answer for each request; raises PredictionException where a lone request fails."""
        key = "explanations" if context.get_request_header(0, "explain") == "True" else "predictions"
        instances = [_instances(request) for request in requests]
        if len(instances) == 1:
            return [_encode(key, self._predict(instances[0], context))]
        try:
            results = iter(self._predict([one for some in instances for one in some], context))
            return [_encode(key, [next(results) for _ in some]) for some in instances]
        except PredictionException:
            # One bad request must not fail the others.
            return [self._predict_alone(key, some, context, index) for index, some in enumerate(instances)]

    def _predict(self, instances: list[Any], context: Any) -> list[Any]:
        try:
            results = self._handle(instances, context)
        except (PredictionException, MemoryError):
            raise  # TorchServe gives these their own status
        except Exception as error:
            if "CUDA" in str(error):
                raise  # likewise: 507
            raise PredictionException(f"{type(error).__name__} : {error}", 500) from error
        results = results.tolist() if hasattr(results, "tolist") else results
        if not isinstance(results, list | tuple) or len(results) != len(instances):
            got = len(results) if isinstance(results, list | tuple) else type(results).__name__
            raise PredictionException(
                f"The handler must return one prediction per instance in a list: {len(instances)} expected, got {got}",
                500,
            )
        return list(results)

    def _predict_alone(self, key: str, instances: list[Any], context: Any, index: int) -> bytes:
        try:
            return _encode(key, self._predict(instances, context))
        except PredictionException as error:
            context.set_response_status(code=error.error_code, phrase="", idx=index)
            return orjson.dumps({"code": error.error_code, "message": error.message})


def _instances(request: dict[str, Any]) -> list[Any]:
    body = request.get("data") or request.get("body")
    document = orjson.loads(body) if isinstance(body, bytes | bytearray | str) else body
    if not isinstance(document, dict) or not isinstance(document.get("instances"), list):
        raise PredictionException('The request is not {"instances": [...]}', 400)
    return list(document["instances"])


def _encode(key: str, results: list[Any]) -> bytes:
    try:
        return orjson.dumps({key: results}, default=_plain, option=_DUMP_OPTIONS)
    except TypeError as error:
        raise PredictionException(f"The handler's result cannot be written as JSON: {error}", 500) from error


def _plain(value: Any) -> Any:
    """Tensors and arrays as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


class ReportingLoader(TsModelLoader):  # type: ignore[misc]  # the wheel has no types
    """TorchServe's loader; what goes wrong in it is written down before the worker dies."""

    def load(self, model_name: str, model_dir: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().load(model_name, model_dir, *args, **kwargs)
        except Exception as error:
            _report(model_name, model_dir, error)
            raise

    def _load_default_envelope(self, envelope: str) -> Any:
        return V1Envelope if envelope == "kserve" else super()._load_default_envelope(envelope)


def _report(model_name: str, model_dir: str, error: BaseException) -> None:
    # The loader looks for a handler in two places; what failed in the first is the cause worth naming.
    while isinstance(error, ImportError) and error.__context__ is not None:
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(os.path.realpath(model_dir))] or frames
    report = {
        "model": model_name,
        "type": type(error).__name__,
        "message": str(error),
        "where": f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}" if own else "",
        "missing_module": error.name if isinstance(error, ModuleNotFoundError) else None,
    }
    unfinished = _FAILURES / f".{os.getpid()}"
    unfinished.write_text(json.dumps(report))
    unfinished.rename(_FAILURES / f"{model_name}.json")


if __name__ == "__main__":
    ModelLoaderFactory.get_model_loader = staticmethod(ReportingLoader)
    runpy.run_module("ts.model_service_worker", run_name="__main__", alter_sys=True)
