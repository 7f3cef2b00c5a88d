"""GCS by fake-gcs-server. It takes any request for an authorised one; ``identities.bearer`` before it does not."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.support.object_stores.programs import listening, program
from tests.support.ports import free_port


@dataclass(frozen=True)
class GcsServer:
    url: str

    def create_bucket(self, name: str) -> None:
        self._post("/storage/v1/b", json.dumps({"name": name}).encode())

    def put(self, bucket: str, name: str, content: bytes) -> None:
        self._post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}", content)

    def put_tree(self, bucket: str, prefix: str, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            self.put(bucket, f"{prefix}/{name}" if prefix else name, content)

    def _post(self, target: str, body: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        with urllib.request.urlopen(urllib.request.Request(self.url + target, body, headers)) as answer:
            assert answer.status == 200


@contextlib.contextmanager
def running(home: Path, public_host: str = "127.0.0.1") -> Iterator[GcsServer]:
    """An empty one that keeps all in memory.

    ``public_host`` is the host by which clients ask it: it takes another one for the name of a bucket.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [program("fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
               "-public-host", public_host, "-backend", "memory", "-log-level", "error"]  # fmt: skip
    with listening(command, port, home / "log"):
        yield GcsServer(f"http://127.0.0.1:{port}")
