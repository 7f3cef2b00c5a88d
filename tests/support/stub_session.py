"""The client of the API server over a session that records what it is asked to send."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from kubernetes.aio.client import Configuration

from isvc.api_server import PersonsApi
from isvc.source.reach import through_service
from isvc_operator.kube import requests
from isvc_operator.kube.credentials import Credentials
from isvc_operator.kube.pause import Pause
from tests.support.builders import a_service_body

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
"""


@dataclass
class StubSession:
    """The call of an aiohttp session that the client makes, and its response."""

    status: int = 200
    body: bytes = b'{"kind": "List"}'
    error: Exception | None = None
    headers: dict[str, str] = field(default_factory=dict)
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    async def request(self, method: str, url: str, *, data: bytes | None, headers: dict[str, str], **_: Any) -> Any:
        self.sent.append((method, url, headers, data))
        if self.error is not None:
            raise self.error
        return self

    @property
    def content(self) -> StubSession:
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.body

    def release(self) -> None:
        return

    close = release


@dataclass
class Connections:
    """What the client takes of the Kubernetes client's connections."""

    session: StubSession
    ssl_context: ssl.SSLContext = field(default_factory=ssl.create_default_context)


async def read_nothing(_: Configuration) -> str | None:
    """Credentials that are nowhere to be read again."""
    return None


def api_of(session: StubSession, credentials: Credentials | None = None, **options: Any) -> PersonsApi:
    if credentials is None:
        credentials = Credentials(read_nothing, Configuration(host="https://api"))
        credentials.configuration.api_key["BearerToken"] = "Bearer secret"
    connections: Any = Connections(session)
    return PersonsApi(connections, Pause(lambda: 0.0, lambda: 0.0), credentials=credentials, **options)


PROXIED = through_service("models", "http:bert:80", requests.ApiRequest("POST", "/v1/models", body=b"{}"))
REQUEST = requests.patch_status(a_service_body(), {"url": "http://x"})
