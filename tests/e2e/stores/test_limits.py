"""Little disk and little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.limits import memory_limit
from tests.support.object_stores import versitygw
from tests.support.object_stores.proxy import Request, is_object, proxy

MIB = 1 << 20
GB = 1_000_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_too_little_space_is_found_before_anything_is_read(
    initialize: Initialize, store: Store, small_disk: Path
) -> None:
    uri = store.fill({"weights.bin": bytes(9 * MIB)})
    with proxy(store.server.url) as between:
        outcome = initialize(uri, small_disk / "models", **store.environment(between.url))

    assert (outcome.exit_code, outcome.reason) == (
        10,
        f"{uri}: it needs 9.0 MiB, but {small_disk}/models has 8.0 MiB free; use a bigger volume or node",
    )
    assert [request for request in between.requests if is_object(request)] == []


def test_a_disk_that_others_fill_meanwhile(initialize: Initialize, bucket: Store, small_disk: Path) -> None:
    uri = bucket.fill({"weights.bin": bytes(6 * MIB)})

    def decide(request: Request) -> None:
        if is_object(request):
            (small_disk / "of another pod").write_bytes(bytes(4 * MIB))

    with proxy(bucket.server.url, decide) as between:
        outcome = initialize(uri, small_disk / "models", **bucket.environment(between.url))

    assert (outcome.exit_code, outcome.reason) == (
        10,
        f"{uri}: {small_disk}/models filled up during the copy; use a bigger volume or node",
    )
    assert list((small_disk / "models").iterdir()) == []


def test_memory_does_not_grow_with_an_object(bucket: Store, s3: versitygw.S3Server, models: Path) -> None:
    """1 GB of nothing, which costs the server nothing, in a container of 256 MiB, page cache included."""
    uri = bucket.fill({})
    path = s3.root / uri.rpartition("/")[2] / "weights.bin"
    with path.open("wb") as stream:
        stream.truncate(GB)
    versitygw.set_etag(path, "0" * 32 + "-2")

    with memory_limit(256 * MIB) as limited:
        command = [sys.executable, "-m", "storage_initializer", uri, str(models)]
        ended = subprocess.run(command, env=bucket.environment(), preexec_fn=limited, capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (models / "weights.bin").stat().st_size == GB
    (models / "weights.bin").unlink()
