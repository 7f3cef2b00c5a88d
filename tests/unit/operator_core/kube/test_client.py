"""The adapter of the API server's client: what comes back, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubernetesApi, _message_of
from isvc_operator.kube.errors import Conflict, KubeError, NotFound, Refused


@dataclass
class StubClient:
    """The two calls of `kubernetes.aio`'s ApiClient that the adapter makes."""

    status: int = 200
    body: bytes = b"{}"
    error: Exception | None = None
    serialized: list[tuple[Any, ...]] = field(default_factory=list)

    async def param_serialize(self, method: str, path: str, **options: Any) -> tuple[Any, ...]:
        self.serialized.append((method, path, options))
        return (method, path)

    async def call_api(self, *serialized: Any, _request_timeout: float) -> StubClient:
        if self.error is not None:
            raise self.error
        return self

    @property
    def response(self) -> StubClient:
        return self

    async def read(self) -> bytes:
        return self.body


REQUEST = requests.patch_status("models", "torchserve", {"url": "http://x"})


async def test_a_request_is_sent_as_it_is_and_its_answer_returned() -> None:
    client = StubClient(body='{"kind": "Straße"}'.encode())

    answer = await KubernetesApi(client).send(REQUEST)

    assert answer == '{"kind": "Straße"}'
    assert client.serialized == [
        (
            "PATCH",
            "/apis/serving.kserve.io/v1beta1/namespaces/models/inferenceservices/torchserve/status",
            {
                "query_params": [("fieldManager", "isvc-operator")],
                "header_params": {
                    "Content-Type": "application/merge-patch+json",
                    "Accept": "application/json, */*",
                },
                "body": {"status": {"url": "http://x"}},
                "auth_settings": ["BearerToken"],
            },
        )
    ]


async def test_a_log_that_is_not_utf8_is_still_text() -> None:
    assert await KubernetesApi(StubClient(body=b"ok \xff")).send(REQUEST) == "ok �"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, KubeError),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (422, Refused),
        (429, KubeError),
        (500, KubeError),
        (503, KubeError),
    ],
)
async def test_a_status_that_is_no_success_is_an_error_of_its_kind(status: int, kind: type[KubeError]) -> None:
    client = StubClient(status, b'{"kind": "Status", "message": "because"}')

    with pytest.raises(KubeError) as caught:
        await KubernetesApi(client).send(REQUEST)

    assert type(caught.value) is kind
    assert (caught.value.status, str(caught.value)) == (status, "because")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError(), "no answer from the API server: TimeoutError"),
        (aiohttp.ClientConnectionError("refused"), "no answer from the API server: refused"),
        (ConnectionResetError("reset"), "no answer from the API server: reset"),
    ],
)
async def test_no_answer_is_an_error_without_a_status(error: Exception, message: str) -> None:
    with pytest.raises(KubeError) as caught:
        await KubernetesApi(StubClient(error=error)).send(REQUEST)

    assert (caught.value.status, str(caught.value)) == (0, message)


async def test_an_error_without_a_body_tells_its_status() -> None:
    with pytest.raises(KubeError, match=r"^HTTP 503$"):
        await KubernetesApi(StubClient(503, b"")).send(REQUEST)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"kind": "Status", "message": "no such thing"}', "no such thing"),
        ('{"kind": "Status"}', '{"kind": "Status"}'),
        ("upstream connect error", "upstream connect error"),
        ('["not", "a", "status"]', '["not", "a", "status"]'),
        ("", ""),
        ("x" * 1000, "x" * 500),
    ],
)
def test_the_message_of_an_error(body: str, message: str) -> None:
    assert _message_of(body) == message
