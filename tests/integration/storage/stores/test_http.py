"""Files from a web server: as they are, behind credentials, over TLS, and on bad lines."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import nginx, tls
from tests.support.object_stores.proxy import Action, Answer, Reset, Truncate, on, proxy

CONTENT = random.Random(0).randbytes(3 << 20)
BASIC = {"Authorization": "Basic " + b64encode(f"{nginx.USER}:{nginx.PASSWORD}".encode()).decode()}
BEARER = {"Authorization": f"Bearer {nginx.TOKEN}"}


@pytest.fixture
def path(web: nginx.HttpServer) -> str:
    web.put("bert/weights.bin", CONTENT)
    return "bert/weights.bin"


@pytest.mark.parametrize("folder", ["", "slow/", "whole/"])
def test_a_file_arrives_under_its_own_name(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str
) -> None:
    outcome = initialize(f"{web.url}/{folder}{path}", models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"weights.bin": CONTENT}


@pytest.mark.parametrize(("folder", "headers"), [("basic", BASIC), ("bearer", BEARER)])
def test_headers_come_from_the_secret_of_the_host(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str, headers: dict[str, str]
) -> None:
    environment = {"127.0.0.1-headers": json.dumps(headers)}

    outcome = initialize(f"{web.url}/{folder}/{path}", models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"weights.bin": CONTENT}


def test_an_archive_is_unpacked(initialize: Initialize, web: nginx.HttpServer, models: Path) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("bert/config.json", b"{}")

    outcome = initialize(web.put("packed/bert.zip", packed.getvalue()), models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"bert/config.json": b"{}"}


@pytest.mark.parametrize("folder", ["basic", "bearer"])
def test_a_refusal_tells_how_to_give_headers(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str
) -> None:
    uri = f"{web.url}/{folder}/{path}"

    outcome = initialize(uri, models)

    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: {web.url} answers 401 to a request without credentials; put the headers it wants into a secret "
        "with the keys https-host and headers",
    )


def test_the_log_names_headers_and_not_what_is_in_them(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path
) -> None:
    outcome = initialize(f"{web.url}/bearer/{path}", models, **{"127.0.0.1-headers": json.dumps(BEARER)})

    assert outcome.log[1] == f"with the headers Authorization for {web.url}"
    assert nginx.TOKEN not in "\n".join(outcome.log)


def test_a_file_that_is_not_there(initialize: Initialize, web: nginx.HttpServer, models: Path) -> None:
    uri = f"{web.url}/no-such.bin"

    outcome = initialize(uri, models)

    assert (outcome.exit_code, outcome.reason) == (
        5,
        f"{uri}: {web.url} has no such file (404); correct the address",
    )


def test_a_private_authority_is_believed_where_it_is_given(
    initialize: Initialize, web: nginx.HttpServer, certificate: tls.Certificate, path: str, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "cabundle.crt").write_bytes(certificate.authority.read_bytes())
    bundle = {"CA_BUNDLE_CONFIGMAP_NAME": "authorities", "CA_BUNDLE_VOLUME_MOUNT_POINT": str(tmp_path)}

    refused = initialize(f"{web.tls_url}/{path}", models)
    outcome = initialize(f"{web.tls_url}/{path}", models, **bundle)

    assert refused.exit_code == 16
    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"weights.bin": CONTENT}


@pytest.mark.parametrize("folder", ["", "whole/"], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("fault", [Answer(503), Reset(1 << 20), Truncate(1 << 20)], ids=["503", "reset", "cut off"])
def test_a_bad_line_is_tried_again(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str, fault: Action
) -> None:
    """The first request is for the file's length."""
    with proxy(web.url, on(fault, {2, 3})) as between:
        outcome = initialize(f"{between.url}/{folder}{path}", models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"weights.bin": CONTENT}
    assert len(between.harmed) == 2


def test_a_redirect_is_followed_without_the_headers(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path
) -> None:
    """They are for the host they were given for."""
    with (
        proxy(web.url) as second,
        proxy(None, lambda _: Answer(302, headers={"Location": f"{second.url}/{path}"})) as first,
    ):
        outcome = initialize(
            f"{first.url}/model.bin", models, **{f"{first.url.removeprefix('http://')}-headers": json.dumps(BEARER)}
        )

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert {request.headers.get("authorization") for request in first.requests} == {BEARER["Authorization"]}
    assert {request.headers.get("authorization") for request in second.requests} == {None}
