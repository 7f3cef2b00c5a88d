"""Stores behind a proxy that leads out of the cluster, as a company's network has it."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import nginx, tls
from tests.support.object_stores.proxy import Answer, Request, proxy
from tests.support.object_stores.versitygw import OWNER, REGION, S3Server
from tests.support.ports import free_port

FILES = {"config.json": b"{}"}
PASSWORD = "Basic " + b64encode(b"team:p@ss").decode()


def for_those_with_a_password(request: Request) -> Answer | None:
    return None if request.headers.get("proxy-authorization") == PASSWORD else Answer(407)


def with_password(url: str) -> str:
    return url.replace("http://", "http://team:p%40ss@")


def is_named(host: str) -> str:
    return f" (by the proxy {host.removeprefix('http://')})"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_a_bucket_is_asked_for_by_its_whole_address(
    initialize: Initialize, s3: S3Server, bucket: Store, models: Path, variable: str
) -> None:
    uri = bucket.fill({f"model/{name}": content for name, content in FILES.items()})

    with proxy(s3.url, for_those_with_a_password) as between:
        outcome = initialize(f"{uri}/model", models, **bucket.environment(), **{variable: with_password(between.url)})

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == (
        f"as access key {OWNER.access}, endpoint {s3.url}, region {REGION}{is_named(between.url)}"
    )
    assert {request.target.startswith(f"{s3.url}/") for request in between.requests} == {True}
    assert read_tree(models) == FILES


def test_a_server_with_tls_is_reached_through_a_tunnel(
    initialize: Initialize, web: nginx.HttpServer, certificate: tls.Certificate, models: Path
) -> None:
    web.put("config.json", FILES["config.json"])
    host = web.tls_url.removeprefix("https://")

    with proxy(web.tls_url, for_those_with_a_password) as between:
        environment = {"HTTPS_PROXY": with_password(between.url), "AWS_CA_BUNDLE": str(certificate.authority)}
        outcome = initialize(f"{web.tls_url}/config.json", models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"without credentials{is_named(between.url)}"
    assert {(request.method, request.target) for request in between.requests} == {("CONNECT", host)}
    assert read_tree(models) == FILES


def test_a_host_of_no_proxy_is_asked_directly(initialize: Initialize, web: nginx.HttpServer, models: Path) -> None:
    web.put("config.json", FILES["config.json"])

    with proxy(web.url) as between:
        outcome = initialize(f"{web.url}/config.json", models, HTTP_PROXY=between.url, NO_PROXY="127.0.0.0/8")

    assert (outcome.exit_code, between.requests) == (0, [])
    assert outcome.log[1] == "without credentials"


@pytest.mark.parametrize(("scheme", "prefix"), [("http", ""), ("https", "Tunnel connection failed: ")])
def test_a_proxy_that_refuses_is_named(
    initialize: Initialize, web: nginx.HttpServer, models: Path, scheme: str, prefix: str
) -> None:
    url = web.tls_url if scheme == "https" else web.url
    variable = f"{scheme.upper()}_PROXY"

    with proxy(url, for_those_with_a_password) as between:
        outcome = initialize(f"{url}/config.json", models, **{variable: between.url})

    host = between.url.removeprefix("http://")
    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{url}/config.json: the proxy {host} does not connect to {url.partition('://')[2]} "
        f"({prefix}407 Proxy Authentication Required); correct {variable}, or put it into NO_PROXY",
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_cannot_be_reached_is_named(
    initialize: Initialize, web: nginx.HttpServer, models: Path, scheme: str
) -> None:
    url, host = (web.tls_url if scheme == "https" else web.url), f"127.0.0.1:{free_port()}"
    variable = f"{scheme.upper()}_PROXY"

    outcome = initialize(f"{url}/config.json", models, S3_MAX_ATTEMPTS="1", **{variable: host})

    assert (outcome.exit_code, outcome.reason) == (
        15,
        f"{url}/config.json: the proxy {host} does not connect to {url.partition('://')[2]} (Connection refused); "
        f"correct {variable}, or put it into NO_PROXY",
    )


@pytest.mark.parametrize("there", [True, False], ids=["refuses", "is not there"])
def test_a_proxy_before_a_store_is_named(
    initialize: Initialize, s3: S3Server, bucket: Store, models: Path, there: bool
) -> None:
    uri = bucket.fill(FILES)
    with proxy(s3.url, for_those_with_a_password) as between:
        url = between.url if there else f"http://127.0.0.1:{free_port()}"
        outcome = initialize(uri, models, **bucket.environment(), HTTP_PROXY=url, S3_MAX_ATTEMPTS="1")

    why = "407 Proxy Authentication Required" if there else "Connection refused"
    assert (outcome.exit_code, outcome.reason) == (
        7 if there else 15,
        f"{uri}: the proxy {url.removeprefix('http://')} does not connect to {s3.url.removeprefix('http://')} ({why}); "
        "correct HTTP_PROXY, or put it into NO_PROXY",
    )


def test_a_proxy_that_opens_no_tunnel_to_a_store_is_named(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Answer(407)) as between:
        environment = {"AWS_ENDPOINT_URL": "https://minio:9000", "awsAnonymousCredential": "1", "S3_MAX_ATTEMPTS": "1"}
        outcome = initialize("s3://models/bert", models, **environment, HTTPS_PROXY=between.url)

    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"s3://models/bert: the proxy {between.url.removeprefix('http://')} does not connect to minio:9000 "
        "(407 Proxy Authentication Required); correct HTTPS_PROXY, or put it into NO_PROXY",
    )
