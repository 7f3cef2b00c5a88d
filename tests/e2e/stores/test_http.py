"""Files from a web server: as they are, behind credentials, over TLS, and on bad lines."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from pathlib import Path

import pytest

from storage_initializer.limits import MAX_REDIRECTS
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import packed_zip, read_tree, write_mar, write_tar
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
def test_headers_come_from_the_secret_of_the_host_and_are_not_logged(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str, headers: dict[str, str]
) -> None:
    environment = {"127.0.0.1-headers": json.dumps(headers)}

    outcome = initialize(f"{web.url}/{folder}/{path}", models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"weights.bin": CONTENT}
    assert outcome.log[1] == f"with credentials for {web.url}"
    assert headers["Authorization"].partition(" ")[2] not in "\n".join(outcome.log)


ZIP = packed_zip({"bert/config.json": b"{}"})


@pytest.mark.parametrize("folder", ["", "whole/"], ids=["ranges", "no ranges"])
@pytest.mark.parametrize(
    "address", ["download?path=/2021/model.zip", "download?id=42", "42", "bert-1.0", "get.php?file=1", "50%.zip"]
)
def test_an_archive_is_unpacked_whatever_the_address_is(
    initialize: Initialize, web: nginx.HttpServer, models: Path, address: str, folder: str
) -> None:
    web.put(address.partition("?")[0], ZIP)

    outcome = initialize(f"{web.url}/{folder}{address}", models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"bert/config.json": b"{}"}


@pytest.mark.parametrize(
    ("headers", "there"),
    [
        ({"Content-Disposition": 'attachment; filename="model.zip"'}, {"bert/config.json": b"{}"}),
        ({"Content-Type": "application/zip"}, {"bert/config.json": b"{}"}),
        ({"Content-Type": "text/html"}, {"bert/config.json": b"{}"}),
        ({"Content-Disposition": "attachment; filename=bert.keras"}, {"bert.keras": ZIP}),
    ],
    ids=["named by the server", "typed by the server", "typed wrongly", "of another type"],
)
def test_what_the_server_says_of_a_file_counts(
    initialize: Initialize, models: Path, headers: dict[str, str], there: dict[str, bytes]
) -> None:
    with proxy(None, lambda _: Answer(200, ZIP, headers)) as server:
        outcome = initialize(f"{server.url}/download", models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == there


def test_a_model_archive_without_a_name_gets_one_and_is_served(
    initialize: Initialize, web: nginx.HttpServer, models: Path, tmp_path: Path
) -> None:
    archive = write_mar(tmp_path / "bert.mar").read_bytes()
    web.put("artifacts/7", archive)

    outcome = initialize(f"{web.url}/artifacts/7", models, "--layout", "torchserve")

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert (models / "model-store/7.mar").read_bytes() == archive
    assert "7 is called 7.mar here, for what it holds" in outcome.log


PAGE = b"\n<!-- wiki -->\n<!DOCTYPE html><html><body>Please sign in.</body></html>"


@pytest.mark.parametrize("address", ["models/bert.zip", "models/bert", "models/"])
def test_a_page_in_place_of_a_file_is_refused(initialize: Initialize, models: Path, address: str) -> None:
    with proxy(None, lambda _: Answer(200, PAGE, {"Content-Type": "text/html; charset=utf-8"})) as server:
        outcome = initialize(f"{server.url}/{address}", models)

    assert (outcome.exit_code, outcome.reason) == (
        17,
        f"{server.url}/{address}: {server.url} responds with a web page (text/html), not with a file; see whether the "
        "address leads to a page for downloads, or wants credentials",
    )
    assert read_tree(models) == {}


def test_a_page_that_is_asked_for_by_its_name_is_a_file(
    initialize: Initialize, web: nginx.HttpServer, models: Path
) -> None:
    assert initialize(web.put("report.html", PAGE), models).exit_code == 0
    assert read_tree(models) == {"report.html": PAGE}


@pytest.mark.parametrize(
    ("name", "exit_code"), [("weights.bin", 17), ("weights.tar.gz", 0)], ids=["another file", "what it is anyhow"]
)
def test_a_file_that_the_server_compresses_unasked_is_refused(
    initialize: Initialize, models: Path, name: str, exit_code: int, tmp_path: Path
) -> None:
    content = write_tar(tmp_path / "x.tar.gz").read_bytes()
    with proxy(None, lambda _: Answer(200, content, {"Content-Encoding": "gzip"})) as server:
        outcome = initialize(f"{server.url}/{name}", models, "--layout", "none")

    assert outcome.exit_code == exit_code
    assert exit_code == 0 or "(Content-Encoding: gzip), which was not requested; serve it as it is" in outcome.reason


def test_an_empty_file_is_no_model(initialize: Initialize, web: nginx.HttpServer, models: Path) -> None:
    outcome = initialize(web.put("empty.onnx", b""), models)

    assert (outcome.exit_code, outcome.reason) == (
        6,
        f"{web.url}/empty.onnx: there is nothing in its files (0 bytes); put the model there again",
    )
    assert read_tree(models) == {}


def test_redirects_end(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda request: Answer(302, headers={"Location": f"{request.target}x"})) as server:
        outcome = initialize(f"{server.url}/model.bin", models)

    assert (outcome.exit_code, outcome.reason) == (
        17,
        f"{server.url}/model.bin: {server.url} redirects more than 10 times; give the address of the file itself",
    )
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("folder", ["basic", "bearer"])
def test_a_refusal_tells_how_to_give_headers(
    initialize: Initialize, web: nginx.HttpServer, path: str, models: Path, folder: str
) -> None:
    uri = f"{web.url}/{folder}/{path}"

    outcome = initialize(uri, models)

    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: {web.url} responds with 401 to a request without credentials; put the headers it requires into a "
        "secret with the keys https-host and headers",
    )


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
