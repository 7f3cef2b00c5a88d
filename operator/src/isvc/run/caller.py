"""Sends requests to a service through the local ingress, like a user with curl."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp

from isvc.inference.protocol import InferenceProtocol, document_in, metadata_path, models_in
from isvc.inference.sample import sample_of
from isvc.limits import MODELS_SECONDS, PREDICT_SECONDS, SAMPLED_MODELS, SENT_RESPONSE_BYTES
from isvc.predict.payload import PredictPayload
from isvc.predict.send import caller
from isvc.predict.target import Target
from isvc.run.container import LOOPBACK
from isvc.run.errors import RunFailed, UnusableInput
from isvc.run.files import read_bytes
from isvc_operator.responses import read_up_to
from isvc_operator.text import one_line

# What TorchServe's own handlers take: a picture, of one pixel, or a text.
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNITk4GAAJWASokcuCuAAAAAElFTkSuQmCC"
_DATA: Final = {
    **dict.fromkeys(("image_classifier", "object_detector", "image_segmenter"), _PIXEL),
    "text_classifier": "Hello World!",
}


@dataclass(frozen=True)
class Endpoint:
    """A service, its host name, the port of the ingress and, if the server has one, its port for gRPC.

    ``path`` is that of the service on this machine's own name.
    """

    service: str
    host: str
    port: int
    grpc_port: int | None = None
    path: str = ""

    @property
    def url(self) -> str:
        """The URL of the ingress."""
        return f"http://{LOOPBACK}:{self.port}"

    def curl(self, path: str, what: Path | bytes) -> str:
        """Return the command that sends a file, or a body of JSON, to ``path``."""
        command = f"curl -X POST {shlex.quote(self.url + self.path + path)}"
        if isinstance(what, Path):
            return f"{command} -T {shlex.quote(str(what))}"
        return f"{command} -H 'Content-Type: application/json' -d {shlex.quote(what.decode())}"


@dataclass(frozen=True)
class Served:
    """The models that a server serves; whether it speaks v1, and the metadata in v2 of those that have some."""

    names: tuple[str, ...]
    v1: bool
    metadata: Mapping[str, Any]


async def served(endpoint: Endpoint) -> Served:
    """Return what a server says of its models; one that lists none has a model of the service's name.

    A server also lists models that it does not serve, such as those whose archives are missing: 503.

    Raises RunFailed for a server that does not respond, or not as HTTP has it.
    """
    try:
        async with asyncio.timeout(MODELS_SECONDS), aiohttp.ClientSession(headers={"Host": endpoint.host}) as session:
            _, list_of_models = await _read(session, f"{endpoint.url}/v1/models")
            listed = models_in(list_of_models or b"")
            names = [endpoint.service] if listed is None else listed[:SAMPLED_MODELS]
            found = {name: await _read(session, endpoint.url + metadata_path(name)) for name in names}
    except (aiohttp.ClientError, TimeoutError) as error:
        why = one_line(str(error)) or f"no response within {MODELS_SECONDS:g} s"
        raise RunFailed(f"{endpoint.service} does not say which models it serves: {why}") from error
    served_names = tuple(name for name, (status, _) in found.items() if status != HTTPStatus.SERVICE_UNAVAILABLE)
    metadata = {name: document_in(content) for name, (_, content) in found.items() if content is not None}
    return Served(served_names, listed is not None, metadata)


async def _read(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes | None]:
    """Return the status of a response, and its content if that is 200 and the response is not too large."""
    async with session.get(url, allow_redirects=False) as response:
        content = await read_up_to(response, SENT_RESPONSE_BYTES)
        is_whole = response.status == HTTPStatus.OK and len(content) <= SENT_RESPONSE_BYTES
        return response.status, content if is_whole else None


def sample_request(
    name: str, models: Served, beside: Path | None, handler: str | None = None, *, transformed: bool
) -> tuple[InferenceProtocol, Path | bytes | None]:
    """Return the protocol and the body of a request that fits a model; None without any that does.

    What the model says of its inputs is more certain than the sample ``beside`` the YAML; not so where a transformer
    stands before it, or where any text is an input.
    """
    described = sample_of(models.metadata.get(name))
    if described and not transformed and b'"BYTES"' not in described:
        return InferenceProtocol.V2, described
    if beside and (is_v2 := _is_v2(beside)) is not None and (models.v1 or is_v2):
        return InferenceProtocol.V2 if is_v2 else InferenceProtocol.V1, beside
    if described and not transformed:
        return InferenceProtocol.V2, described
    return InferenceProtocol.V1, guessed(handler)


def guessed(handler: str | None) -> bytes | None:
    """Return what a handler of TorchServe's takes, whatever its model was trained on; None for any other handler."""
    return json.dumps({"instances": [{"data": _DATA[handler]}]}).encode() if handler in _DATA else None


def _is_v2(file: Path) -> bool | None:
    """Whether a sample is one of v2; None if it is none at all."""
    try:
        document = document_in(read_bytes(file))
    except UnusableInput:
        return None
    return "inputs" in document if isinstance(document, dict) else None


async def predict(endpoint: Endpoint, payload: PredictPayload) -> str:
    """Return the response to a request; raises RunFailed for an error, and unless the service has exactly one model."""
    names = (await served(endpoint)).names
    if len(names) != 1:
        raise RunFailed(
            f"{endpoint.service} serves {one_line(', '.join(names)) or 'no model'}; --request requires one model"
        )
    async with caller(Target(endpoint.url, endpoint.host), PREDICT_SECONDS) as service:
        answer = await service.predict(names[0], payload)
    text = answer.body.decode(errors="replace").strip()
    if not answer.succeeded:
        raise RunFailed(f"{payload.protocol.path(names[0])} returned {answer.status}: {one_line(text)}")
    return text
