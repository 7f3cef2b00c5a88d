"""Sends requests to a service through the local ingress, like a user with curl."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp

from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import RunFailed
from isvc_operator.text import one_line


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

    def curl(self, path: str, file: str) -> str:
        """Return the command that sends ``file`` to ``path``."""
        return f"curl -X POST {shlex.quote(self.url + self.path + path)} -T {shlex.quote(file)}"


async def model_names(endpoint: Endpoint) -> list[str]:
    """Return the models that the server lists, or the service's name if it has no such list."""
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}) as session,
        session.get(f"{endpoint.url}/v1/models") as response,
    ):
        listed = _listed(await response.read()) if response.status == 200 else None
        return [endpoint.service] if listed is None else listed


def _listed(content: bytes) -> list[str] | None:
    """Return the names in a list of the v1 protocol; None for another response at its path."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    models = document.get("models") if isinstance(document, dict) else None
    is_list_of_names = isinstance(models, list) and all(isinstance(name, str) for name in models)
    return models if is_list_of_names else None


def predict_path(model: str) -> str:
    """Return the path of a model's predictions in the v1 protocol."""
    return f"/v1/models/{quote(model)}:predict"


async def predict(endpoint: Endpoint, body: bytes) -> str:
    """Return the response to ``body``; raises RunFailed for an error, and unless the service has exactly one model."""
    names = await model_names(endpoint)
    if len(names) != 1:
        raise RunFailed(
            f"{endpoint.service} serves {one_line(', '.join(names)) or 'no model'}; --request requires one model"
        )
    # Like `curl -T`, this sends no Content-Type.
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}, skip_auto_headers=["Content-Type"]) as session,
        session.post(endpoint.url + predict_path(names[0]), data=body) as response,
    ):
        text = (await response.text(errors="replace")).strip()
        if response.status != 200:
            raise RunFailed(f"{predict_path(names[0])} returned {response.status}: {one_line(text)}")
        return text
