"""The client of the API server by TLS: whom it trusts, and the certificate that it shows."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509

from isvc.api_server import connect_others
from isvc.run.container import LOOPBACK
from isvc_operator.kube import requests
from isvc_operator.kube.client import connect
from isvc_operator.kube.errors import (
    KubeError,
)
from tests.support.object_stores.tls import Certificate, issue
from tests.support.stub_session import KUBECONFIG


@asynccontextmanager
async def serving_tls(made: Certificate, *, clients: Path | None = None) -> AsyncIterator[tuple[str, list[Any]]]:
    """The URL of a server, and whose certificate each request had; ``clients``: the authority that theirs have."""
    seen: list[Any] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.get_extra_info("peercert"))
        return web.json_response({"kind": "List"})

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    tls.load_cert_chain(made.chain, made.key)
    tls.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
    try:
        yield f"https://{LOOPBACK}:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


def write_tls_kubeconfig(folder: Path, server: str, cluster: dict[str, Any], user: dict[str, str] | None = None) -> str:
    content = yaml.safe_load(KUBECONFIG)
    content["users"][0]["user"] = user or {"token": "secret"}
    content["clusters"][0]["cluster"] = {"server": server, **cluster}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return str(path)


GET = requests.get("Service", "models", "bert")


@pytest.mark.parametrize("bare", [False, True], ids=["of today", "of an older cluster"])
async def test_a_server_of_the_authority_is_trusted_and_no_other(tmp_path: Path, bare: bool) -> None:
    made, other = issue(tmp_path / "server", bare=bare), issue(tmp_path / "other")
    async with serving_tls(made) as (server, seen):
        for authority in (made.authority, other.authority):
            kubeconfig = write_tls_kubeconfig(tmp_path, server, {"certificate-authority": str(authority)})
            async with connect(kubeconfig) as api:
                if authority == made.authority:
                    await api.send(GET)
                else:
                    with pytest.raises(KubeError, match=r"CERTIFICATE_VERIFY_FAILED"):
                        await api.send(GET)

    assert len(seen) == 1


@pytest.mark.parametrize("whose", ["ours", "another's"])
async def test_an_authority_that_was_replaced_is_trusted_at_the_next_attempt(tmp_path: Path, whose: str) -> None:
    made, authority = issue(tmp_path / "server"), tmp_path / "ca.crt"
    authority.write_bytes(issue(tmp_path / "before").authority.read_bytes())
    async with serving_tls(made) as (server, seen):
        kubeconfig = write_tls_kubeconfig(tmp_path, server, {"certificate-authority": str(authority)})
        async with connect(kubeconfig) as ours, connect_others(kubeconfig) as api_of_token:
            api = ours if whose == "ours" else api_of_token("ann")
            authority.write_text("")  # it is being replaced
            with pytest.raises(KubeError):
                await api.send(GET)
            authority.write_bytes(made.authority.read_bytes())
            with pytest.raises(KubeError):
                await api.send(GET)
            await api.send(GET)

    assert len(seen) == 1


async def test_a_client_certificate_is_shown_by_us_and_not_for_others(tmp_path: Path) -> None:
    made = issue(tmp_path / "server")
    user = {"client-certificate": str(made.chain), "client-key": str(made.key)}
    async with serving_tls(made, clients=made.authority) as (server, seen):
        kubeconfig = write_tls_kubeconfig(tmp_path, server, {"certificate-authority": str(made.authority)}, user)
        async with connect(kubeconfig) as api:
            await api.send(GET)
        async with connect_others(kubeconfig) as api_of_token:
            with pytest.raises(KubeError, match=r"^no response from the API server"):
                await api_of_token("ann").send(GET)

    assert [shown["subject"] for shown in seen] == [((("commonName", "localhost"),),)]


@pytest.mark.parametrize("named", [True, False], ids=["with its name", "without"])
async def test_the_certificate_may_have_another_name_than_the_url(tmp_path: Path, named: bool) -> None:
    made = issue(tmp_path / "server", x509.DNSName("api.example"))
    async with serving_tls(made) as (server, seen):
        name = {"tls-server-name": "api.example"} if named else {}
        kubeconfig = write_tls_kubeconfig(tmp_path, server, {"certificate-authority": str(made.authority), **name})
        async with connect(kubeconfig) as api, connect_others(kubeconfig) as api_of_token:
            for client in (api, api_of_token("ann")):
                with suppress(KubeError):
                    await client.send(GET)

    assert len(seen) == (2 if named else 0)


async def test_a_kubeconfig_may_trust_any_certificate(tmp_path: Path) -> None:
    made = issue(tmp_path / "server", x509.DNSName("api.example"))
    async with serving_tls(made) as (server, seen):
        kubeconfig = write_tls_kubeconfig(tmp_path, server, {"insecure-skip-tls-verify": True})
        async with connect(kubeconfig) as api, connect_others(kubeconfig) as api_of_token:
            await api.send(GET)
            await api_of_token("ann").send(GET)

    assert len(seen) == 2
