"""Every protocol over one TorchServe with several models and versions, and archives that get in nobody's way."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.model_folder import manifest, write_mar

# What a handler of instances may be sent: dictionaries of named tensors, bare numbers, or a request as it came.
HANDLER = b"""
import utils

VERSION = %r

def handle(data, context):
    if data is None:
        return None
    return [answer(one) for one in data]

def answer(one):
    if isinstance(one, dict) and "body" in one:
        return {"bytes": len(one["body"]), "type": type(one["body"]).__name__, "version": VERSION}
    if isinstance(one, dict) and "file" in one:
        return {"bytes": len(one["file"]), "k": one["k"].decode()}
    return {"doubled": utils.doubled(one["x"])} if isinstance(one, dict) else utils.doubled(one)
"""
# An archive comes ahead of nearly everything on a worker's path.
BESIDE = {
    "utils.py": b"def doubled(value):\n    return [2 * x for x in value] if isinstance(value, list) else 2 * value\n",
    "msgspec.py": b"raise ImportError('the archive has its own')\n",
    "data_plane.py": b"raise ImportError('the archive has its own')\n",
}
LARGE = 12 * 1024 * 1024


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    versions = {version: {"marName": f"two-{version}.mar"} for version in ("1.0", "2.0")}
    snapshot = {"models": {"two words": versions, "one": {"1.0": {"marName": "two-1.0.mar"}}}}
    config = f"model_snapshot={json.dumps(snapshot)}\nmax_request_size={LARGE + 1000}\n"
    folder = model_dir(tmp_path_factory.mktemp("protocols") / "models", config)
    for version in versions:
        write_mar(
            folder / "model-store" / f"two-{version}.mar",
            manifest(modelVersion=version),
            {"handler.py": HANDLER % version, **BESIDE},
        )
    with Adapter(folder) as running:
        yield running.wait_all_ready()


def test_v1_reaches_a_model_with_a_space_in_its_name(adapter: Adapter) -> None:
    assert adapter.predict("two%20words", {"instances": [1, [2, 3]]}).document == {"predictions": [2, [4, 6]]}


def test_a_raw_body_reaches_the_version_that_is_named_whatever_its_size(adapter: Adapter) -> None:
    answers = [
        adapter.request(
            "POST", f"/predictions/two%20words{version}", b"\x00" * LARGE, Content_Type="image/jpeg"
        ).document
        for version in ("", "/1.0", "/2.0")
    ]

    assert answers == [{"bytes": LARGE, "type": "bytearray", "version": version} for version in ("2.0", "1.0", "2.0")]


def test_an_upload_reaches_the_handler_in_parts(adapter: Adapter) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="k"\r\n\r\n5\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
        b"\xff\xd8\xff\r\n--b--\r\n"
    )

    content_type = "multipart/form-data; boundary=b"
    answer = adapter.request("POST", "/predictions/one", body, Content_Type=content_type)

    assert (answer.status, answer.document) == (200, {"bytes": 3, "k": "5"})


def test_the_stages_of_a_request_are_timed_on_request(adapter: Adapter) -> None:
    answer = adapter.request("POST", "/v1/models/one:predict", b'{"instances": [1]}', X_Server_Timing="1")

    stages = [stage.partition(";")[0] for stage in answer.headers["server-timing"].split(", ")]
    assert stages == ["queue", "batch", "model", "transport"]
