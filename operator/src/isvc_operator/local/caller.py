"""Calls a service through the ingress, as its user does with curl."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp

from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import RunFailed


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
        return f"curl -X POST -H 'Host: {self.host}' {self.url}{path} -T {file}"


async def model_names(endpoint: Endpoint) -> list[str]:
    """The models that the server lists; the service's own name where it has no such list."""
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}) as session,
        session.get(f"{endpoint.url}/v1/models") as answer,
    ):
        if answer.status != 200:
            return [endpoint.service]
        return [str(name) for name in (await answer.json(content_type=None))["models"]]


def predict_path(model: str) -> str:
    """Where a model takes requests of the v1 protocol."""
    return f"/v1/models/{model}:predict"


async def predict(endpoint: Endpoint, body: bytes) -> str:
    """The answer to ``body``; raises RunFailed where there is none, or more than one model that could be meant."""
    names = await model_names(endpoint)
    if len(names) != 1:
        raise RunFailed(f"{endpoint.service} serves {', '.join(names) or 'no model'}; --request wants one model")
    # Like `curl -T`, this sends no Content-Type.
    async with (
        aiohttp.ClientSession(headers={"Host": endpoint.host}, skip_auto_headers=["Content-Type"]) as session,
        session.post(endpoint.url + predict_path(names[0]), data=body) as answer,
    ):
        text = (await answer.text(errors="replace")).strip()
        if answer.status != 200:
            raise RunFailed(f"{predict_path(names[0])} answers {answer.status}: {text}")
        return text
