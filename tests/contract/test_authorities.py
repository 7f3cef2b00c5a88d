"""Which authorities the clients of all deployables trust: those that other programs of a cluster trust."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

import data_plane.tls
import isvc.tls
from storage_initializer.backends.trust import Trust, tls_context
from tests.support.object_stores import tls
from transformer_sdk.kserve.inference_client import RESTConfig

CLIENTS: dict[str, Callable[[str], ssl.SSLContext]] = {
    "operator": isvc.tls.trusting,
    "data plane": data_plane.tls.trusting,
    "kserve's client in the SDK": lambda authority: RESTConfig(verify=authority).tls(),
    "storage-initializer": lambda authority: tls_context(Trust(True, authority)),
}


@pytest.fixture(autouse=True)
def _as_in_python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the default from Python 3.13 on."""
    default = ssl.create_default_context

    def strict(*arguments: object, **options: object) -> ssl.SSLContext:
        context: ssl.SSLContext = default(*arguments, **options)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("bare", [False, True], ids=["of today", "of an older cluster"])
def test_an_authority_in_a_file_is_trusted(client: Callable[[str], ssl.SSLContext], bare: bool, tmp_path: Path) -> None:
    server = tls.issue(tmp_path, bare=bare)

    shake_hands(client(str(server.authority)), server)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_another_authority_and_another_host_are_refused(
    client: Callable[[str], ssl.SSLContext], tmp_path: Path
) -> None:
    server, other = tls.issue(tmp_path / "server"), tls.issue(tmp_path / "other")

    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shake_hands(client(str(other.authority)), server)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(client(str(server.authority)), server, "127.0.0.2")


def shake_hands(trusting: ssl.SSLContext, server: tls.Certificate, host: str = "127.0.0.1") -> None:
    """Do a handshake in memory."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.chain, server.key)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        trusting.wrap_bio(to_client, to_server, server_hostname=host),
        serving.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in (*ends, *ends):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ends[0].getpeercert(), "the handshake has come to its end"
