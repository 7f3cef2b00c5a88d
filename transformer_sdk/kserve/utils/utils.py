"""`kserve.utils.utils`: what predictors use to come from requests to arrays and back. Needs numpy."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transformer_sdk.kserve.constants.constants import PredictorProtocol
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.flags import strtobool
from transformer_sdk.kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse
from transformer_sdk.kserve.utils.numpy_codec import from_np_dtype

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["generate_uuid", "get_predict_input", "get_predict_response", "is_v1", "is_v2", "strtobool"]


def generate_uuid() -> str:
    """A random one."""
    return str(uuid.uuid4())


def is_v1(protocol: str | PredictorProtocol) -> bool:
    """Whether it is v1, by its name or its constant."""
    return _name(protocol) == PredictorProtocol.REST_V1.value


def is_v2(protocol: str | PredictorProtocol) -> bool:
    """Whether it is v2 over HTTP, by its name or its constant."""
    return _name(protocol) == PredictorProtocol.REST_V2.value


def get_predict_input(payload: dict[str, Any] | InferRequest, columns: Sequence[str] | None = None) -> Any:
    """An array of the instances, or of the first input; a data frame for records; a list for text."""
    if isinstance(payload, InferRequest):
        if (payload.parameters or {}).get("content_type") == "pd":
            return payload.as_dataframe()
        first = payload.inputs[0]
        return first.data if first.datatype == "BYTES" and _is_text(first.data) else first.as_numpy()
    instances = payload["inputs"] if "inputs" in payload else payload["instances"]
    if _has_records(instances):
        return _data_frame(instances, columns)
    return instances if _is_text(instances) else np.array(instances)


def get_predict_response(
    payload: dict[str, Any] | InferRequest, result: Any, model_name: str
) -> dict[str, Any] | InferResponse:
    """The predictions in the form of the request: an array, a list, or a data frame."""
    is_frame = hasattr(result, "columns")
    if isinstance(payload, dict):
        if is_frame:
            result = result.to_dict(orient="records")
        return {"predictions": result.tolist() if isinstance(result, np.ndarray) else result}
    if not isinstance(payload, InferRequest):
        raise InvalidInput(f"unsupported payload type {type(payload)}")
    columns = {name: result[name].to_numpy() for name in result.columns} if is_frame else {"output-0": _array(result)}
    return InferResponse(
        payload.id or generate_uuid(),
        model_name,
        [_output(name, array, payload.use_binary_outputs) for name, array in columns.items()],
        use_binary_outputs=payload.use_binary_outputs,
        requested_outputs=payload.request_outputs,
    )


def _name(protocol: str | PredictorProtocol) -> str:
    return str(protocol.value if isinstance(protocol, PredictorProtocol) else protocol).lower()


def _is_text(values: Any) -> bool:
    return len(values) > 0 and isinstance(values[0], str)


def _has_records(instances: Any) -> bool:
    first = instances[0] if len(instances) else None
    return isinstance(first, dict) or (isinstance(first, list) and bool(first) and isinstance(first[0], dict))


def _data_frame(instances: Any, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([pd.DataFrame(instance, columns=columns) for instance in instances], axis=0)


def _array(result: Any) -> Any:
    return np.array(result, dtype=object if isinstance(result, list) and _is_text(result) else None)


def _output(name: str, array: Any, binary: bool) -> InferOutput:
    output = InferOutput(name, list(array.shape), from_np_dtype(array.dtype) or "")
    output.set_data_from_numpy(array, binary_data=binary)
    return output
