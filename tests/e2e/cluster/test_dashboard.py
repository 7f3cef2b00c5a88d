"""The dashboard in the cluster, in Chromium: people sign in, follow a start and send requests."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import Browser, Page, expect

from tests.e2e.browser.conftest import Open, chromium, visits
from tests.support.cluster import RealCluster
from tests.support.digits import digits_zip
from tests.support.forwarding import address_seen_from, forwarded, node_address
from tests.support.limited_users import PODS, SERVICES
from tests.support.namespace import Namespace, small_service
from tests.support.object_stores import nginx, tls
from tests.support.object_stores.proxy import Request, Slow, is_object, proxy
from tests.support.ports import unbound_port

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
HOME = "isvc-system"
WITHIN = 180_000.0  # milliseconds; the pods of other tests may fill the node for a while
BYTES, BYTES_PER_S = 6_000_000, 300_000
SEND = {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create"]}
CHILDREN = {"apiGroups": ["apps", ""], "resources": ["deployments", "services"], "verbs": ["list"]}


@dataclass(frozen=True)
class Board:
    """Where the dashboard is, and the tokens of two people: ``ann`` may see the namespace, ``bob`` may not."""

    address: str
    ann: str
    bob: str

    def signed_in(self, token: str) -> dict[str, Any]:
        """Options of a browser's context: what a proxy sends that has signed somebody in."""
        return {"extra_http_headers": {"Authorization": f"Bearer {token}"}}


@pytest.fixture(scope="module")
def board(cluster: RealCluster, namespace: Namespace) -> Iterator[Board]:
    """The dashboard as `kubectl apply -k manifests/dashboard` installs it, reached by `kubectl port-forward`."""
    port = unbound_port()
    origin = f"http://localhost:{port}"
    objects = subprocess.check_output(["bash", "tests/cluster/render", "dashboard"], cwd=ROOT, text=True)
    objects = objects.replace("http://localhost:8088", origin)
    where = ("--namespace", HOME)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=objects)
    cluster.kubectl(*where, "rollout", "status", "deployment/isvc-dashboard", "--timeout=170s")
    tokens = [a_person(namespace, "ann", SERVICES, PODS, SEND, CHILDREN), a_person(namespace, "bob", PODS)]
    command = [cluster.binary, f"--kubeconfig={cluster.kubeconfig}", *where, "port-forward", "service/isvc-dashboard",
               f"{port}:80"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout
            assert "Forwarding" in forwarding.stdout.readline()
            yield Board(origin, *tokens)
        finally:
            forwarding.terminate()
    cluster.kubectl("delete", "--filename=-", stdin=objects)


def a_person(namespace: Namespace, name: str, *rules: dict[str, Any]) -> str:
    """The token of an account that has these rules in the namespace."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rbac = "rbac.authorization.k8s.io/v1"
    namespace.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {"apiVersion": rbac, "kind": "Role", "metadata": {"name": name}, "rules": list(rules)},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": name}, "subjects": [subject], "roleRef": role},
    )
    return namespace.kubectl("create", "token", name).strip()


@pytest.fixture(scope="module")
def is_seen() -> threading.Event:
    """Set when enough of the slow download was seen."""
    return threading.Event()


@pytest.fixture(scope="module")
def store(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory, is_seen: threading.Event) -> Iterator[str]:
    """The URL at which pods find the model, on a web server that is slow until ``is_seen``."""
    folder = tmp_path_factory.mktemp("store")
    address = address_seen_from(node_address(cluster))

    def slow(request: Request) -> Slow | None:
        return Slow(BYTES_PER_S, until=is_seen) if is_object(request) else None

    with contextlib.ExitStack() as stack:
        web = stack.enter_context(nginx.running(folder / "web", tls.issue(folder / "tls")))
        web.put("digits.zip", digits_zip(folder, padding=BYTES))
        slow_web = stack.enter_context(proxy(web.url, slow))
        port = stack.enter_context(forwarded(address, int(slow_web.url.rpartition(":")[2])))
        yield f"http://{address}:{port}/digits.zip"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser, board: Board) -> AsyncIterator[Open]:
    async with visits(browser, board.address) as opened:
        yield opened


def a_service(name: str, **model: Any) -> dict[str, Any]:
    service = small_service()
    service["metadata"]["name"] = name
    service["spec"]["predictor"]["model"].update({"runtime": "isvc-mar", **model})
    return service


async def test_a_start_is_followed_from_pending_to_ready_without_a_reload(
    open_page: Open, board: Board, namespace: Namespace, store: str, is_seen: threading.Event
) -> None:
    table = await open_page("/", **board.signed_in(board.ann))
    await table.evaluate("window.mark = true")
    await asyncio.to_thread(namespace.apply, a_service("digits", storageUri=store))
    row = table.get_by_role("row", name="digits")

    await expect(row).to_contain_text("Starting", timeout=WITHIN)
    bar = f'#rows tr:has(a[href="/services/{namespace.name}/digits"]) progress'
    await expect(table.locator(bar)).to_be_visible(timeout=WITHIN)
    shown = await table.locator(bar).evaluate("bar => bar.value")
    await table.wait_for_function("([bar, shown]) => document.querySelector(bar)?.value > shown", arg=[bar, shown])
    is_seen.set()

    await expect(row).to_contain_text("Ready", timeout=WITHIN)
    assert await table.evaluate("window.mark")


async def test_people_sign_in_and_each_sees_what_is_allowed(
    browser: Browser, board: Board, namespace: Namespace
) -> None:
    link = f"/services/{namespace.name}/digits"
    seen = {}
    for name, token in (("ann", board.ann), ("bob", board.bob)):
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(board.address)
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Services")).to_be_visible()
        await expect(page.locator("#connection")).to_have_text("Live")
        assert f":{namespace.name}:{name}" in await page.locator(".person").inner_text()
        links = await page.locator("#rows a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        response = await page.goto(board.address + link)
        assert response
        seen[name] = [link in links, response.status]
        await page.goto(board.address)
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        await context.close()

    assert seen == {"ann": [True, 200], "bob": [False, 404]}


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_an_image_is_uploaded_and_the_time_split_adds_up(
    open_page: Open, board: Board, namespace: Namespace, protocol: str
) -> None:
    image = io.BytesIO()
    Image.new("L", (28, 14)).save(image, "png")
    page = await open_page(f"/services/{namespace.name}/digits/request", **board.signed_in(board.ann))
    if protocol == "v2":
        await page.get_by_label("Protocol").select_option("v2")
        await expect(page.get_by_text("/v2/models/digits/infer")).to_be_visible()
    file = {"name": "digit.png", "mimeType": "image/png", "buffer": image.getvalue()}
    await page.get_by_label("Or a file").set_input_files(file)
    await page.get_by_role("button", name="Send").click()

    shown = await answer(page)
    assert shown == {"predictions": [[28, 14]]} if protocol == "v1" else "28" in str(shown["outputs"])
    response = page.locator("#response")
    parts = await response.locator("[data-ms]").evaluate_all("all => all.map(one => Number(one.dataset.ms))")
    total = await response.locator(".answer b").inner_text()
    assert len(parts) == 5
    assert sum(parts) == pytest.approx(float(total.removesuffix(" ms")), abs=0.5)  # which is rounded


async def answer(page: Page) -> Any:
    """The body of a good response, as it is shown."""
    await expect(page.locator("#response .status")).to_have_text("200")
    return json.loads(await page.get_by_label("Body of the response").inner_text())


async def test_rates_are_read_from_the_pods(open_page: Open, board: Board, namespace: Namespace) -> None:
    page = await open_page("/", **board.signed_in(board.ann))
    cell = page.get_by_role("row", name="digits").locator('[data-label="Requests/s"]')
    await expect(cell).not_to_have_text("–", timeout=WITHIN)


async def test_nothing_that_the_dashboard_asked_for_was_refused(cluster: RealCluster, board: Board) -> None:
    assert "forbidden" not in cluster.kubectl("--namespace", HOME, "logs", "deployment/isvc-dashboard")
