"""Calls a service through the ingress, as its user does with curl."""

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
    """A service's name, its host name, the port of the ingress and, where the server speaks gRPC, its port for that."""

    service: str
    host: str
    port: int
    grpc_port: int | None = None

    @property
    def url(self) -> str:
        """Where the ingress listens."""
        return f"http://{LOOPBACK}:{self.port}"

    def curl(self, path: str, file: str) -> str:
        """The command that sends ``file`` to ``path``."""
        return f"curl -X POST -H 'Host: {self.host}' {self.url}{path} -T {shlex.quote(file)}"


async def model_names(endpoint: Endpoint) -> list[str]:
    """The models that the server lists; the service's own name where it has no such list."""
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}) as session,
        session.get(f"{endpoint.url}/v1/models") as answer,
    ):
        listed = _listed(await answer.read()) if answer.status == 200 else None
        return [endpoint.service] if listed is None else listed


def _listed(content: bytes) -> list[str] | None:
    """The names of a list of the v1 protocol; None for what other servers have at its path."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    models = document.get("models") if isinstance(document, dict) else None
    is_list_of_names = isinstance(models, list) and all(isinstance(name, str) for name in models)
    return models if is_list_of_names else None


def predict_path(model: str) -> str:
    """Where a model takes requests of the v1 protocol."""
    return f"/v1/models/{quote(model)}:predict"


async def predict(endpoint: Endpoint, body: bytes) -> str:
    """The answer to ``body``; raises RunFailed where there is none, or more than one model that could be meant."""
    names = await model_names(endpoint)
    if len(names) != 1:
        raise RunFailed(
            f"{endpoint.service} serves {one_line(', '.join(names)) or 'no model'}; --request wants one model"
        )
    # Like `curl -T`, this sends no Content-Type.
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}, skip_auto_headers=["Content-Type"]) as session,
        session.post(endpoint.url + predict_path(names[0]), data=body) as answer,
    ):
        text = (await answer.text(errors="replace")).strip()
        if answer.status != 200:
            raise RunFailed(f"{predict_path(names[0])} answers {answer.status}: {one_line(text)}")
        return text
