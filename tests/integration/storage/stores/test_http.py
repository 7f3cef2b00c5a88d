"""Files from a web server: as they are, behind credentials, over TLS, and on bad lines."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import nginx

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
