"""What is sent to a model: JSON in the protocol that its shape shows, or files as the runtimes take them. Pure."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isvc.inference.protocol import InferenceProtocol
from isvc.predict.errors import UnusableRequest

_BYTES = "application/octet-stream"
_JSON = "application/json"
_TEXT = "text/plain"


@dataclass(frozen=True)
class File:
    """A file to send: ``field`` is its name in a form, and "" for one that is the whole body."""

    field: str
    filename: str
    content: bytes

    @property
    def content_type(self) -> str:
        """What its name says that it is."""
        return mimetypes.guess_type(self.filename)[0] or _BYTES


@dataclass(frozen=True)
class PredictPayload:
    """The body of a request: bytes of a type, or a form with ``files``."""

    protocol: InferenceProtocol
    body: bytes = b""
    content_type: str = _JSON
    files: tuple[File, ...] = ()


def of_json(
    content: bytes, protocol: InferenceProtocol | None, declared: InferenceProtocol | None = None
) -> PredictPayload:
    """Return the payload for JSON; without ``protocol`` its shape decides, or if that fits both the ``declared`` one.

    A lone list becomes v1's instances. TorchServe's own protocol also takes text that is not JSON.

    Raises UnusableRequest for what is not JSON, or has the shape of no protocol; without ``protocol`` also for no
    instances, which v1 answers with no predictions.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if protocol is InferenceProtocol.TORCHSERVE:
            return PredictPayload(protocol, content, _TEXT)
        raise UnusableRequest(
            f"the data is not JSON: {error}; send a file as it is with --file, or a text with --protocol torchserve"
        ) from error
    if (encoding := json.detect_encoding(content)) != "utf-8":  # as some shells and editors write it
        content = content.decode(encoding, "surrogatepass").encode(errors="replace")
    if protocol is InferenceProtocol.TORCHSERVE:
        return PredictPayload(protocol, content)
    if protocol is None and _rows(value) == []:
        raise UnusableRequest(
            'the data has an empty list, of which nothing is predicted; write instances into it, such as {"instances": '
            "[[1, 2]]}"
        )
    if isinstance(value, list) and protocol is not InferenceProtocol.V2:
        return PredictPayload(InferenceProtocol.V1, b'{"instances": ' + content + b"}")
    if found := protocol or _protocol_of(value, declared):
        return PredictPayload(found, content)
    raise UnusableRequest(
        'the data has neither "instances" (v1) nor "inputs" with name, shape and datatype (v2); add one of them, or '
        "send the data as it is: with --protocol torchserve, or to a transformer with --protocol v1; isvc bench takes "
        "any data for a whole URL"
    )


def _rows(value: Any) -> Any:
    """Return the instances of v1, or the tensors of v2; None for what has neither."""
    return value.get("instances", value.get("inputs")) if isinstance(value, dict) else value


def _protocol_of(value: Any, declared: InferenceProtocol | None) -> InferenceProtocol | None:
    inputs = value.get("inputs") if isinstance(value, dict) else None
    if isinstance(inputs, list) and inputs and all(isinstance(item, dict) for item in inputs):
        # Both protocols may have a list of objects here, but only v2's say their data type.
        return InferenceProtocol.V2 if all("datatype" in item for item in inputs) else declared or InferenceProtocol.V1
    return InferenceProtocol.V1 if isinstance(value, dict) and ("instances" in value or "inputs" in value) else None


def of_files(files: Sequence[File], protocol: InferenceProtocol | None) -> PredictPayload:
    """Return the payload for files: as TorchServe takes them, or for v1 one instance with their base64.

    Raises UnusableRequest for v2, which has no files, for several files of which one has no name, and for two of one
    name in an instance.
    """
    if protocol is InferenceProtocol.V2:
        raise UnusableRequest(
            "v2 has tensors and no files; use --protocol torchserve or v1, or give tensors with --data"
        )
    if len(files) > 1 and not all(file.field for file in files):
        raise UnusableRequest("several files need a name each; write --file NAME=FILE")
    if protocol is InferenceProtocol.V1:
        if twice := [name for name, count in Counter(file.field for file in files).items() if count > 1]:
            raise UnusableRequest(f"{twice[0]} is given twice; give each file a name of its own")
        return PredictPayload(InferenceProtocol.V1, json.dumps({"instances": [_instance(files)]}).encode())
    if not files[0].field:
        return PredictPayload(InferenceProtocol.TORCHSERVE, files[0].content, files[0].content_type)
    return PredictPayload(InferenceProtocol.TORCHSERVE, files=tuple(files))


def _instance(files: Sequence[File]) -> dict[str, Any]:
    encoded = {file.field: {"b64": base64.b64encode(file.content).decode()} for file in files}
    return encoded.get("", encoded)
