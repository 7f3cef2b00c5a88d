"""The client of the API server: its responses and its errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from isvc_operator.errors import ConfigError
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubernetesApi, _message_of, load_configuration
from isvc_operator.kube.errors import Conflict, KubeError, ObjectNotFound, RequestRefused
from tests.support.builders import a_service_body


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


REQUEST = requests.patch_status(a_service_body(), {"url": "http://x"})


async def test_a_request_is_sent_unchanged_and_its_response_returned() -> None:
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
                "body": {"status": {"url": "http://x"}, "metadata": {"resourceVersion": "1"}},
                "auth_settings": ["BearerToken"],
            },
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "déjà vu",
        "🎉",
        "\\ud83c\\udf89",
        "a\x7f\x85\u2028\u2029b",
        "\ufeff\uffff",
        'tab\t"quote"\r\n\x00\x1b',
        "{{ $(A) }}: #",
    ],
)
async def test_what_is_applied_is_yaml_whatever_its_texts_contain(text: str) -> None:
    client = StubClient()
    manifest = {**a_service_body(), "metadata": {"name": "x", "namespace": "y", "annotations": {"note": text}}}

    await KubernetesApi(client).send(requests.apply(manifest, force=True))

    ((_, _, sent),) = client.serialized
    assert sent["header_params"]["Content-Type"] == "application/apply-patch+yaml; charset=utf-8"
    assert yaml.safe_load(sent["body"]) == json.loads(sent["body"]) == manifest


async def test_a_log_that_is_not_utf8_is_still_text() -> None:
    assert await KubernetesApi(StubClient(body=b"ok \xff")).send(REQUEST) == "ok �"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRefused),
        (401, KubeError),
        (403, RequestRefused),
        (404, ObjectNotFound),
        (409, Conflict),
        (422, RequestRefused),
        (429, KubeError),
        (500, KubeError),
        (503, KubeError),
    ],
)
async def test_a_status_other_than_success_is_an_error_of_its_class(status: int, kind: type[KubeError]) -> None:
    client = StubClient(status, b'{"kind": "Status", "message": "because"}')

    with pytest.raises(KubeError) as caught:
        await KubernetesApi(client).send(REQUEST)

    assert type(caught.value) is kind
    assert (caught.value.status, str(caught.value)) == (status, "because")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError(), "no response from the API server: TimeoutError"),
        (aiohttp.ClientConnectionError("refused"), "no response from the API server: refused"),
        (ConnectionResetError("reset"), "no response from the API server: reset"),
    ],
)
async def test_no_response_is_an_error_without_a_status(error: Exception, message: str) -> None:
    with pytest.raises(KubeError) as caught:
        await KubernetesApi(StubClient(error=error)).send(REQUEST)

    assert (caught.value.status, str(caught.value)) == (0, message)


async def test_an_error_without_a_body_has_its_status() -> None:
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


# --- credentials ---------------------------------------------------------------------------------------

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
"""


async def test_credentials_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)

    configuration = await load_configuration(str(path))

    assert configuration.host == "https://127.0.0.1:6443"
    assert configuration.api_key == {"BearerToken": "Bearer secret"}


@pytest.mark.parametrize("content", [None, "nonsense: [", "kind: Config"])
async def test_a_kubeconfig_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError, match=f"kubeconfig {path} cannot be used"):
        await load_configuration(str(path))


async def test_outside_of_a_pod_a_kubeconfig_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ConfigError, match="no kubeconfig is set, and this is not a pod"):
        await load_configuration(None)


async def test_the_api_server_ends_a_write_in_time_if_there_is_an_election() -> None:
    client = StubClient()
    api = KubernetesApi(client, 4.0)

    await api.send(REQUEST)
    await api.send(requests.get("Service", "models", "bert"))

    assert [options["query_params"] for _, _, options in client.serialized] == [
        [("fieldManager", "isvc-operator"), ("timeout", "4s")],
        [],
    ]
