"""One dashboard for several people of a real cluster: each signs in with a token, and the API server decides."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from yarl import URL

from tests.support.apiserver import ApiServer
from tests.support.builders import a_deployment, a_pod, an_initializer, running
from tests.support.limited_users import PODS, SERVICES, a_reader, a_reader_of_all
from tests.support.ports import unbound_port
from tests.support.related_objects import a_related
from tests.support.source_tree import ROOT
from tests.support.stored_objects import store

pytestmark = pytest.mark.process
_REVIEWED = 2  # seconds, in place of half a minute


@contextmanager
def served(kubeconfig: Path, *namespaces: str, review: int = _REVIEWED) -> Iterator[URL]:
    """Run the dashboard as its Deployment does, for services of these namespaces; SIGTERM ends it."""
    port = unbound_port()
    origin = f"http://127.0.0.1:{port}"
    patched = f"from isvc import limits; limits.DASHBOARD_REVIEW_SECONDS = {review}; "
    patched += "from isvc.dashboard import stream; stream.HEARTBEAT = 3600"  # when pages are looked at in any case
    command = [sys.executable, "-c", f"{patched}; from isvc.console import main; main()", "dashboard",
               f"--kubeconfig={kubeconfig}", f"--namespace={','.join(namespaces)}"]  # fmt: skip
    environment = {**os.environ, "DASHBOARD_ORIGINS": origin, "DASHBOARD_PORT": str(port)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline().strip() == origin
            yield URL(origin)
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()


def token_of(kubeconfig: Path) -> str:
    found: str = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    return found


def a_visit(url: URL, token: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"})


async def services_seen(url: URL, token: str) -> list[str]:
    async with a_visit(url, token) as session, session.get("/") as response:
        return re.findall(r'href="(/services/[^"]*)"', await response.text())


@pytest.fixture
def another(apiserver: ApiServer, namespace: str) -> str:
    name = f"{namespace}-b"
    apiserver.create_namespace(name)
    return name


async def test_the_api_server_decides_what_each_person_sees(
    apiserver: ApiServer, namespace: str, another: str, tmp_path: Path
) -> None:
    copying = a_related(a_pod(initializer=an_initializer(running())), deployment=a_deployment(available=0))
    for place in (namespace, another):
        store(apiserver, place, copying)
    ann, bob = (
        token_of(a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path)),
        token_of(a_reader(apiserver, another, [SERVICES], tmp_path)),
    )
    where = f"/services/{namespace}/torchserve", f"/services/{another}/torchserve"

    # The account of the tests has a client certificate, which must not open anything for anybody.
    with served(apiserver.kubeconfig, namespace, another) as url:
        assert [await services_seen(url, token) for token in (ann, bob)] == [[where[0]], [where[1]]]
        async with a_visit(url, ann) as session, session.get(where[0]) as own, session.get(where[1]) as foreign:
            assert (own.status, foreign.status) == (200, 404)
            assert '<article class="pod' in await own.text()
        async with a_visit(url, bob) as session, session.get(where[1]) as own:
            assert '<article class="pod' not in await own.text()  # which bob may not list
        async with a_visit(url, "no.such-token") as session, session.get("/") as response:
            assert response.url.path == "/sign-in"
        async with a_visit(url, bob) as session:
            query = {"pod": "torchserve-predictor-1-a", "container": "storage-initializer"}
            async with session.get(f"{where[1]}/log", params=query) as response:
                assert response.status == 404


async def test_a_person_reads_logs_with_the_own_token(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    store(apiserver, namespace, a_related())
    without_logs = {**PODS, "resources": ["pods", "events"]}
    token = token_of(a_reader(apiserver, namespace, [SERVICES, without_logs], tmp_path))

    with served(apiserver.kubeconfig, namespace) as url:
        async with a_visit(url, token) as session:
            query = {"pod": "torchserve-predictor-1-a", "container": "kserve-container"}
            async with session.get(f"/services/{namespace}/torchserve/log", params=query) as response:
                assert "cannot get resource" in await response.text()


async def test_a_right_that_is_taken_away_is_gone_soon(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    store(apiserver, namespace, a_related())
    token = token_of(a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path))

    with served(apiserver.kubeconfig, namespace) as url:
        assert len(await services_seen(url, token)) == 1
        apiserver.send("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/reader")

        while await services_seen(url, token):
            pass


async def test_pages_that_were_opened_together_lose_it_together(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    store(apiserver, namespace, a_related())
    token = token_of(a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path))

    with served(apiserver.kubeconfig, namespace) as url:
        async with a_visit(url, token) as session, AsyncExitStack() as stack:
            path = f"/services/{namespace}/torchserve/events"
            opened = await asyncio.gather(*(stack.enter_async_context(session.get(path)) for _ in range(6)))
            assert [page.status for page in opened] == [200] * 6
            for page in opened:
                await page.content.readuntil(b"\n\n")
            apiserver.send("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/reader")

            for page in opened:  # as of a service that is gone
                while b"was deleted" not in await page.content.readline() and not page.content.at_eof():
                    pass


async def test_the_first_service_of_a_namespace_appears_at_once(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    token = token_of(a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path))

    with served(apiserver.kubeconfig, namespace, review=3600) as url:
        async with a_visit(url, token) as session, session.get("/events") as events:
            store(apiserver, namespace, a_related())
            async for line in events.content:
                if f"/services/{namespace}/torchserve".encode() in line:
                    break


async def test_the_account_of_the_manifests_suffices(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    _, role, _ = yaml.safe_load_all((ROOT / "manifests" / "dashboard" / "rbac.yaml").read_text())
    store(apiserver, namespace, a_related())
    account = a_reader_of_all(apiserver, namespace, role["rules"], tmp_path)
    token = token_of(a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path, name="person"))

    with served(account, namespace) as url:
        assert await services_seen(url, token) == [f"/services/{namespace}/torchserve"]
        async with a_visit(url, token_of(account)) as session, session.get("/") as response:
            # It may see all that it watches, and sends nothing.
            missing = re.findall(r'<p class="hidden-part">(.*?)</p>', await response.text())
            assert [text.partition(",")[0] for text in missing] == ["you may not get and create services/proxy"]
