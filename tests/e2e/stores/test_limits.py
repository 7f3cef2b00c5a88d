"""Little disk and little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.stores.conftest import Store
from tests.support.limits import memory_limit
from tests.support.object_stores import versitygw

MIB = 1 << 20
GB = 1_000_000_000


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
