"""`python -m tests.e2e.browser.screenshots`: write docs/images: pages in light, in dark and on a phone.

The services are played. The pictures say the same each time but for the clock: look at them before you commit them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from PIL import Image, ImageDraw
from playwright.async_api import Browser, Page, expect

from data_plane.server.metrics import ServerMetrics
from isvc.dashboard import scraping
from isvc.dashboard.server import dashboard
from isvc.view.source import ServiceRequest, ServiceResponse
from isvc_operator.manifests import ServiceKey
from tests.e2e.browser.conftest import chromium
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource

IMAGES = Path(__file__).parents[3] / "docs" / "images"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 780}},
}
PAGES = {
    "services": "/",
    "failure": "/services/vision/mnist",
    "timeline": "/services/vision/resnet-50/timeline",
    "logs": "/services/default/bert/logs",
    "request": "/services/vision/resnet-50/request",
    "charts": "/services/default/bert/charts",
}
PICTURES = {
    "light": ("services", "failure", "timeline", "request"),
    "dark": ("services", "logs", "charts"),
    "phone": ("services", "failure", "request"),
}
POINTS = 150
OTHERS = {"embedding": 64, "classifier": 21, "resnet-50": 9}  # requests a second to each pod
TRACEBACK = """\
Traceback (most recent call last):
  File "/mnt/models/handler.py", line 11, in initialize
    self.model.load_state_dict(torch.load(path))
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 2189, in load_state_dict
RuntimeError: Error(s) in loading state_dict for ConvNet:
\tsize mismatch for fc1.weight: the checkpoint has [128, 9216], the model has [64, 9216]"""
LABELS = {"tabby": 0.4661, "tiger_cat": 0.4123, "Egyptian_cat": 0.0712, "lynx": 0.0051, "bucket": 0.0021}
LOG = """\
INFO    mar_runtime.configuration.model_directory config.properties: model_store: model-store -> /mnt/models/model-store
WARNING mar_runtime.configuration.model_directory config.properties: number_of_netty_threads 4 has no effect
INFO    mar_runtime serving bert
INFO    bert [worker 31] Loading weights from pytorch_model.bin
INFO    mar_runtime.models.supervisor model bert is ready
DEBUG   bert [worker 31] tokenizer has 30522 words
INFO    bert [worker 31] batch of 8 in 11.2 ms
INFO    bert [worker 31] batch of 6 in 9.7 ms
ERROR   bert [worker 31] request 8f2c: ValueError: instances[0].data is a number; send a text
INFO    bert [worker 31] batch of 8 in 11.0 ms"""


class Gallery(FakeSource):
    """Services at several moments of their lives; `bert` has served for a while."""

    def __init__(self, now: datetime) -> None:
        def played(name: str, namespace: str, minutes: float, uri: str = "s3://models/") -> FakeServices:
            began = now - timedelta(minutes=minutes)
            return FakeServices(name=name, namespace=namespace, began=began, uri=f"{uri}{name}")

        self.bert = played("bert", "default", 190, "pvc://leeway/")
        super().__init__(
            self.bert.ready(pods=2),
            played("embedding", "search", 5800).ready(pods=3),
            played("classifier", "search", 62).rolling(),
            played("resnet-50", "vision", 1.2).ready(),
            played("densenet161", "vision", 0.2).loading(62),
            played("mnist", "vision", 4).failed(TRACEBACK),
            played("whisper-large", "audio", 0.1).pending(),
            played("tts", "audio", 0.6).starting(),
        )
        self.respond = respond
        self.read = 0
        self.full = 0.0
        self._metrics = ServerMetrics()
        self._others = {name: (ServerMetrics(), 0.0) for name in OTHERS}
        for number, text in enumerate(LOG.splitlines()):
            at = (now - timedelta(seconds=40 - 4 * number)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            self.write(self.bert.pod_name, "kserve-container", text, at=at)

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        if key.name in OTHERS:
            served, before = self._others[key.name]
            now = self.clock()
            for _ in range(round((now - before) * OTHERS[key.name])):
                served.observe("POST", "/v1/models/{model}:predict", 200, 0.8 / OTHERS[key.name])
            self._others[key.name] = served, now
            return served.exposition().decode()
        if key.name != "bert":
            return ""
        if key.name == "bert" and not pod.endswith("00001"):
            if self.read >= POINTS:
                await asyncio.Event().wait()  # the chart is full
            self.read += 1
            self._serve(self.read)
        return self._metrics.exposition().decode()

    def clock(self) -> float:
        """Five seconds pass with each reading of `bert`; when its chart is full, with each fifth of a second."""
        return 5.0 * self.read + (25 * (time.monotonic() - self.full) if self.full else 0.0)

    def _serve(self, step: int) -> None:
        """Five seconds of traffic, with a peak."""
        peak = 90 < step < 108
        load = 60 + 25 * math.sin(step / 14) + 10 * math.sin(step / 3.1) + (70 if peak else 0)
        for number in range(int(2.5 * load)):
            slow = 0.004 * (1 + number % 7) * (3 if peak and number % 5 == 0 else 1)
            status = 500 if 96 < step < 103 and number % 40 == 0 else 200
            self._metrics.observe("POST", "/v1/models/{model}:predict", status, slow)
        batches = self._metrics.batches.of_model("bert")
        size = max(1, round(load / 18))
        for _ in range(20):
            batches.observe_batch(size, size, 0.01, 0.001)


def kitten() -> bytes:
    """A picture that a classifier may be asked about."""
    image = Image.new("RGB", (320, 200), "#dfe7d4")
    draw, file = ImageDraw.Draw(image), BytesIO()
    for points in ([(100, 90), (108, 22), (156, 60)], [(220, 90), (212, 22), (164, 60)]):
        draw.polygon(points, fill="#b9773d")
    draw.ellipse((95, 45, 225, 165), fill="#c98a4b")
    for x in (132, 188):
        draw.ellipse((x - 11, 84, x + 11, 110), fill="#f3f6e8")
        draw.ellipse((x - 4, 86, x + 4, 108), fill="#26301f")
    draw.polygon([(152, 122), (168, 122), (160, 131)], fill="#7d3f3f")
    image.save(file, "png")
    return file.getvalue()


def respond(request: ServiceRequest) -> ServiceResponse:
    if request.path == "/v1/models":
        return ServiceResponse(status=200, headers={}, body=b'{"models": ["resnet-50"]}', seconds=0.002)
    if request.method == "GET":
        return ServiceResponse(status=404, headers={}, body=b"{}", seconds=0.002)
    timing = "queue;dur=1.214, batch;dur=0.062, model;dur=9.830, transport;dur=0.411"
    headers = {"Content-Type": "application/json", "Server-Timing": timing, "X-Request-Id": "8f2c"}
    body = json.dumps({"predictions": [LABELS]}).encode()
    return ServiceResponse(status=200, headers=headers, body=body, seconds=0.0138)


async def main() -> None:
    """Each page is opened first in a browser of one look, then in the next; the points of the charts stay."""
    now = datetime.now(UTC)
    source = Gallery(now)
    clock = SimpleNamespace(monotonic=source.clock, time=lambda: now.timestamp() + 5.0 * (source.read - POINTS))
    with mock.patch.object(scraping, "time", clock), mock.patch.object(scraping, "EVERY", 0.0):
        async with chromium() as browser, dashboard(source, port=0, token="t", where="cluster staging") as address:
            base = address.split("/?")[0]
            first = await browser.new_page()  # as long as it looks, the points are kept
            await first.goto(f"{base}{PAGES['charts']}?token=t")
            await _is_full(first)
            source.full, scraping.EVERY = time.monotonic(), 0.2
            for look, names in PICTURES.items():
                await _pictures(browser, address, look, names)


async def _pictures(browser: Browser, address: str, look: str, names: Sequence[str]) -> None:
    context = await browser.new_context(**LOOKS[look])
    page = await context.new_page()
    await page.goto(address)
    for name in names:
        await page.goto(address.split("/?")[0] + PAGES[name])
        await expect(page.locator("#connection")).to_have_text("Live")
        await _prepare(page, name)
        _write(await page.screenshot(), IMAGES / f"dashboard-{name}-{look}.png")
    await context.close()


async def _prepare(page: Page, name: str) -> None:
    if name == "request":
        await page.get_by_label("Or a file").set_input_files(
            {"name": "kitten.png", "mimeType": "image/png", "buffer": kitten()}
        )
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#response")).to_contain_text("200 in")
        await page.evaluate("document.activeElement.blur()")
        if (page.viewport_size or {})["width"] > 500:
            await page.evaluate("scrollTo(0, 0)")
    if name == "services":
        await expect(page.get_by_role("row").filter(has_text="Ready").filter(has_text="–")).to_have_count(0)
    if name == "charts":
        await _is_full(page)
    if name == "logs":
        await expect(page.locator("#lines div")).to_have_count(len(LOG.splitlines()))


async def _is_full(page: Page) -> None:
    await expect(page.locator(".charts")).to_have_attribute("data-points", str(POINTS - 1), timeout=60_000)


def _write(picture: bytes, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    Image.open(BytesIO(picture)).convert("RGB").save(file, optimize=True)


if __name__ == "__main__":
    asyncio.run(main())
