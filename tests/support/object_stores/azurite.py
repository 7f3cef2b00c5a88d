"""Azure Blob Storage by azurite: it checks the signature of every request."""

from __future__ import annotations

import base64
import contextlib
import functools
import hmac
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

from tests.support.object_stores.programs import listening
from tests.support.ports import free_port

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # azurite's own
_SCRIPT = Path(__file__).parents[2] / "cluster/azurite"


@dataclass(frozen=True)
class AzureServer:
    """``url`` ends with the account, which real servers have in their host's name."""

    url: str

    def create_bucket(self, name: str, *, public: bool = False) -> None:
        access = {"x-ms-blob-public-access": "container"} if public else {}
        self._put(name, "restype:container", headers=access)

    def put(self, bucket: str, name: str, content: bytes) -> None:
        self._put(f"{bucket}/{quote(name, safe='')}", "", content, headers={"x-ms-blob-type": "BlockBlob"})

    def _put(self, path: str, query: str, body: bytes = b"", *, headers: Mapping[str, str]) -> None:
        """PUT, signed with the account's key; ``query`` is NAME:VALUE."""
        sent = {**headers, "x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = "".join(f"{name}:{value}\n" for name, value in sorted(sent.items()))
        length = str(len(body) or "")
        resource = f"/{ACCOUNT}/{ACCOUNT}/{path}" + (f"\n{query}" if query else "")
        text = f"PUT\n\n\n{length}\n\napplication/octet-stream\n\n\n\n\n\n\n{lines}{resource}"
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()
        sent |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Type": "application/octet-stream"}
        url = f"{self.url}/{path}?{query.replace(':', '=')}"
        with urllib.request.urlopen(urllib.request.Request(url, body, sent, method="PUT")) as answer:
            assert answer.status == 201


@contextlib.contextmanager
def running(home: Path) -> Iterator[AzureServer]:
    """An empty one that keeps all in memory."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [_program(), "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", str(port),
               "--skipApiVersionCheck", "--disableTelemetry", "--silent"]  # fmt: skip
    with listening(command, port, home / "log"):
        yield AzureServer(f"http://127.0.0.1:{port}/{ACCOUNT}")


@functools.cache
def _program() -> str:
    return subprocess.run(["bash", _SCRIPT], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
