"""The client of the API server: its responses and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import yaml

from isvc.api_server import PersonsApi, connect_others
from isvc_operator.kube import client as client_module
from isvc_operator.kube import requests
from isvc_operator.kube.calls import ApiCalls
from isvc_operator.kube.errors import (
    Conflict,
    KubeError,
    NamespaceEnding,
    NotOurs,
    NotPermitted,
    ObjectNotFound,
    RequestRefused,
    ResponseTooLarge,
    ServerBusy,
    error_for,
)
from tests.support.builders import a_service_body
from tests.support.stub_session import KUBECONFIG, PROXIED, REQUEST, StubSession, api_of


async def test_a_request_is_sent_unchanged_and_its_response_returned() -> None:
    session = StubSession(body='{"kind": "Straße"}'.encode())

    answer = await api_of(session).send(REQUEST)

    assert answer == '{"kind": "Straße"}'
    assert session.sent == [
        (
            "PATCH",
            "https://api/apis/serving.kserve.io/v1beta1/namespaces/models/inferenceservices/torchserve/status"
            "?fieldManager=isvc-operator",
            {
                "Content-Type": "application/merge-patch+json",
                "Accept": "application/json, */*",
                "Authorization": "Bearer secret",
            },
            b'{"status": {"url": "http://x"}, "metadata": {"resourceVersion": "1"}}',
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
    session = StubSession()
    manifest = {**a_service_body(), "metadata": {"name": "x", "namespace": "y", "annotations": {"note": text}}}

    await api_of(session).send(requests.apply(manifest, force=True))

    ((_, _, headers, data),) = session.sent
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert yaml.safe_load(data) == json.loads(data) == manifest


async def test_a_log_that_is_not_utf8_is_still_text() -> None:
    request = requests.pod_log("models", "bert", "server", previous=False, lines=1)

    assert await api_of(StubSession(body=b"ok \xff")).send(request) == "ok �"


@pytest.mark.parametrize(
    "body", [b"", b"<html>Log in</html>", b'{"kind": "Service", "metadata": {"name', b"{}", b'{"status": "ok"}']
)
async def test_a_response_that_is_no_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(KubeError, match=r"^the response of the API server is not an object: ") as caught:
        await api_of(StubSession(body=body)).send(REQUEST)

    assert caught.value.is_transient


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
    session = StubSession(status, b'{"kind": "Status", "message": "because"}')

    with pytest.raises(KubeError) as caught:
        await api_of(session).send(REQUEST)

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
        await api_of(StubSession(error=error)).send(REQUEST)

    assert (caught.value.status, str(caught.value)) == (0, message)


async def test_a_response_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "API_RESPONSE_BYTES", 12)
    assert await api_of(StubSession(body=b'{"kind": 1}')).send(REQUEST) == '{"kind": 1}'

    with pytest.raises(ResponseTooLarge):
        await api_of(StubSession(body=b'{"kind": 123}')).send(REQUEST)


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_what_is_passed_on_to_a_pod_comes_back_as_it_is(status: int) -> None:
    session = StubSession(status, b'{"error": "no such model"}')

    passed = await api_of(session).proxy(PROXIED)

    assert (passed.status, passed.body) == (status, b'{"error": "no such model"}')
    ((method, url, _, data),) = session.sent
    assert (method, data) == ("POST", b"{}")
    assert url == "https://api/api/v1/namespaces/models/services/http:bert:80/proxy/v1/models?"


async def test_what_the_api_server_does_not_pass_on_is_an_error() -> None:
    body = b'{"kind":"Status","apiVersion":"v1","message":"services \\"bert\\" is forbidden"}'

    with pytest.raises(RequestRefused, match="is forbidden"):
        await api_of(StubSession(403, body)).proxy(PROXIED)


async def test_a_response_of_a_pod_that_is_too_large_is_not_kept() -> None:
    with pytest.raises(ResponseTooLarge):
        await api_of(StubSession(body=b"x" * 10)).proxy(PROXIED, limit=9)


@pytest.mark.parametrize(
    ("error", "message"),
    [(TimeoutError(), "no response within 7 s"), (aiohttp.ConnectionTimeoutError(), "no response from the API server")],
)
async def test_a_pod_that_takes_too_long_is_not_the_api_server(error: Exception, message: str) -> None:
    with pytest.raises(KubeError, match=message):
        await api_of(StubSession(error=error)).proxy(PROXIED, seconds=7)


async def test_nobody_waits_for_the_pause_of_another_person(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    async with connect_others(str(kubeconfig)) as api_of_token:
        ann, bob = api_of_token("ann"), api_of_token("bob")
        ann.pause.begin(30, "too many requests")

        assert (ann.pause.left > 0, bob.pause.left) == (True, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"kind": "Status", "message": "no such thing"}', "no such thing"),
        ('{"kind": "Status"}', '{"kind": "Status"}'),
        ("upstream connect error", "upstream connect error"),
        ('["not", "a", "status"]', '["not", "a", "status"]'),
        ("", "HTTP 418"),
        ("x" * 1000, "x" * 500),
    ],
)
def test_the_message_of_an_error(body: str, message: str) -> None:
    assert str(error_for(418, body)) == message


@pytest.mark.parametrize(
    ("status", "message", "kind", "by"),
    [
        (401, "Unauthorized", KubeError, "authentication"),
        (403, 'deployments.apps is forbidden: User "system:serviceaccount:a:b" cannot create resource "deployments" '
              'in API group "apps" in the namespace "bank"', NotPermitted, "authorization"),
        (403, "services \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource "
              "you can't set finalizers on: , <nil>", NotPermitted, "authorization"),
        (403, 'services "a" is forbidden: exceeded quota: small, requested: services=1', RequestRefused, "admission"),
        (403, 'admission webhook "x" denied the request: x is forbidden: User "a"', RequestRefused, "admission"),
        (422, "spec.replicas: Invalid value", RequestRefused, ""),
        (500, "etcdserver: request timed out", KubeError, ""),
    ],
)  # fmt: skip
async def test_a_refusal_tells_which_step_has_refused_what(
    status: int, message: str, kind: type[KubeError], by: str
) -> None:
    told = list[tuple[str, str, str]]()
    session = StubSession(status, json.dumps({"kind": "Status", "message": message}).encode())

    with pytest.raises(KubeError) as caught:
        await api_of(session, calls=ApiCalls(refused=lambda *of: told.append(of))).send(REQUEST)

    assert type(caught.value) is kind
    assert told == ([("patch", "inferenceservices", by)] if by else [])


@pytest.mark.parametrize(
    ("status", "details", "kind", "transient"),
    [
        (403, {"causes": [{"reason": "NamespaceTerminating"}]}, NamespaceEnding, False),
        (403, {"causes": [{"reason": "FieldValueForbidden"}]}, RequestRefused, False),
        (404, {"kind": "namespaces", "name": "models"}, NamespaceEnding, False),
        (404, {"kind": "deployments", "name": "models"}, ObjectNotFound, False),
        (409, {"causes": [{"reason": "FieldManagerConflict"}]}, NotOurs, False),
        (409, {"kind": "resourcequotas"}, Conflict, True),
        (409, None, Conflict, True),
        (404, {"kind": "deployments", "causes": None}, ObjectNotFound, False),
        (404, ["unexpected"], ObjectNotFound, False),
        (404, {"causes": ["unexpected"]}, ObjectNotFound, False),
    ],
)
def test_the_details_of_a_status_tell_its_class(
    status: int, details: object, kind: type[KubeError], transient: bool
) -> None:
    error = error_for(status, json.dumps({"kind": "Status", "message": "because", "details": details}))

    assert (type(error), error.is_transient) == (kind, transient)


# --- an API server that asks to wait -------------------------------------------------------------------

TOO_MANY = b"Too many requests, please try again later.\n"  # in the API server's own words


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "seconds", "paused"),
    [
        (429, TOO_MANY, {"Retry-After": "7"}, ServerBusy, 7.0, 7.0),
        (503, b"<html>", {"Retry-After": "7"}, ServerBusy, 7.0, 7.0),
        (429, TOO_MANY, {"Retry-After": "86400"}, ServerBusy, 30.0, 30.0),
        (429, TOO_MANY, {}, KubeError, None, 0.0),
        (429, TOO_MANY, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, KubeError, None, 0.0),
        (429, TOO_MANY, {"Retry-After": "-7"}, KubeError, None, 0.0),
        (429, TOO_MANY, {"Retry-After": "nan"}, KubeError, None, 0.0),
        (500, b'{"kind": "Status", "message": "leader changed"}', {"Retry-After": "7"}, KubeError, 7.0, 0.0),
        (403, b"<html>", {"Retry-After": "7"}, RequestRefused, 7.0, 0.0),
    ],
)
async def test_requests_pause_for_a_server_that_is_busy_not_for_a_request_that_fails(
    status: int, body: bytes, headers: dict[str, str], kind: type[KubeError], seconds: float | None, paused: float
) -> None:
    api = api_of(StubSession(status, body, headers=headers))

    with pytest.raises(KubeError) as caught:
        await api.send(REQUEST)

    assert (type(caught.value), caught.value.retry_after, api.pause.left) == (kind, seconds, paused)


@pytest.mark.parametrize("call", [PersonsApi.send, PersonsApi.proxy])
async def test_nothing_is_sent_during_a_pause(call: Callable[..., Awaitable[object]]) -> None:
    session = StubSession()
    api = api_of(session)
    api.pause.begin(30.0, "too many requests")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call(api, REQUEST)

    assert session.sent == []


async def test_a_lease_is_renewed_during_a_pause() -> None:
    api = api_of(StubSession())
    api.pause.begin(30.0, "too many requests")

    assert await api.send(requests.read_lease("isvc-system", "isvc-operator")) == StubSession.body.decode()


async def test_the_api_server_ends_a_write_in_time_if_there_is_an_election() -> None:
    session = StubSession()
    api = api_of(session, write_seconds=4.0)

    await api.send(REQUEST)
    await api.send(requests.get("Service", "models", "bert"))

    assert [url.partition("?")[2] for _, url, _, _ in session.sent] == ["fieldManager=isvc-operator&timeout=4s", ""]
