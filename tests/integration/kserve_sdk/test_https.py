"""A server with a certificate."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.integration.kserve_sdk.test_ends import started
from tests.support.object_stores import tls
from tests.support.ports import free_port
from tests.support.waiting import eventually


@pytest.mark.parametrize("given_as", ["two-files", "one-file", "secret"])
def test_a_server_with_a_certificate_speaks_https(
    tmp_path: Path, given_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, port = tls.issue(tmp_path), free_port()
    flags = [f"--ssl_certfile={made.chain}"]
    match given_as:
        case "two-files":
            flags.append(f"--ssl_keyfile={made.key}")
        case "one-file":
            made.chain.write_bytes(made.chain.read_bytes() + made.key.read_bytes())
        case _:
            flags = []
            monkeypatch.setenv("TLS_DIR", str(tmp_path))
    process, log = started(tmp_path, f"--http_port={port}", "--enable_grpc=false", *flags)
    trusting = ssl.create_default_context(cafile=str(made.authority))

    def answer() -> bytes | None:
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/v1/models", timeout=10, context=trusting) as reply:
                return bytes(reply.read())
        except urllib.error.URLError:
            return None

    try:
        assert eventually(answer, "it answers", 60, log.read_text) == b'{"models":["mnist"]}'
    finally:
        process.kill()
        process.wait()


def test_a_key_without_a_certificate_is_refused(tmp_path: Path) -> None:
    process, log = started(tmp_path, "--enable_grpc=false", "--ssl_keyfile=tls.key")

    assert process.wait(timeout=60) == 1
    assert "--ssl_keyfile is tls.key, and no certificate is given; name it with --ssl_certfile." in log.read_text()
