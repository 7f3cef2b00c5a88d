"""Steady requests to every service, and a look at its pods and its status every second, while a test changes things."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from isvc.migrate.objects import LiveObjects
from isvc.migrate.read import services_in
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.client import connect
from tests.support.cluster import HTTP

RATE = 2  # requests a second to each service
_BODY = json.dumps({"instances": [1, 2]})


@dataclass(frozen=True)
class Target:
    """A service and its right answer."""

    namespace: str
    name: str
    predictions: tuple[int, ...]

    @property
    def host(self) -> str:
        return f"{self.name}-{self.namespace}.example.com"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass
class Seen:
    """Requests by service, what failed and when, the fewest ready pods, and statuses that were not Ready."""

    sent: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds
    looks: int = 0
    first_pods: dict[str, int] = field(default_factory=dict)
    fewest_pods: dict[str, int] = field(default_factory=dict)
    not_ready: list[str] = field(default_factory=list)

    @property
    def fallen(self) -> dict[str, tuple[int, int]]:
        """Services with fewer ready pods than at the beginning: how many then, and the fewest."""
        return {
            key: (first, self.fewest_pods[key])
            for key, first in self.first_pods.items()
            if self.fewest_pods[key] < first
        }


@contextlib.contextmanager
def watched(targets: Sequence[Target], kubeconfig: Path) -> Iterator[Seen]:
    """Send and look in the background until the block ends."""
    seen, ends = Seen(), threading.Event()
    background = threading.Thread(target=lambda: asyncio.run(_until(ends, targets, kubeconfig, seen)))
    background.start()
    try:
        yield seen
    finally:
        ends.set()
        background.join()


async def _until(ends: threading.Event, targets: Sequence[Target], kubeconfig: Path, seen: Seen) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as http, connect(str(kubeconfig)) as api:
        users = [
            asyncio.create_task(_user(http, target, number / len(targets), ends, seen))
            for number, target in enumerate(targets)
        ]
        users.append(asyncio.create_task(_look(LiveObjects(api), ends, seen)))
        await asyncio.gather(*users)


async def _user(http: aiohttp.ClientSession, target: Target, offset: float, ends: threading.Event, seen: Seen) -> None:
    """Send at a steady rate, also while responses are late."""
    await asyncio.sleep(offset / RATE)
    pending: set[asyncio.Task[None]] = set()
    begun = asyncio.get_running_loop().time()
    number = 0
    while not ends.is_set():
        task = asyncio.create_task(_request(http, target, seen))
        pending.add(task)
        task.add_done_callback(pending.discard)
        number += 1
        await asyncio.sleep(max(0.0, begun + number / RATE - asyncio.get_running_loop().time()))
    await asyncio.gather(*pending)


async def _request(http: aiohttp.ClientSession, target: Target, seen: Seen) -> None:
    seen.sent[target.key] += 1
    started = time.monotonic()
    at = time.strftime("%H:%M:%S", time.gmtime())
    headers = {"Host": target.host, "Content-Type": "application/json"}
    try:
        async with http.post(f"{HTTP}/v1/models/model:predict", data=_BODY, headers=headers) as response:
            text = await response.text()
            if response.status != 200 or json.loads(text)["predictions"] != list(target.predictions):
                seen.failed.append(f"{at} {target.key}: {response.status} {text[:200]}")
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        seen.failed.append(f"{at} {target.key}: {type(error).__name__}: {error}")
    seen.slowest = max(seen.slowest, time.monotonic() - started)


async def _look(objects: LiveObjects, ends: threading.Event, seen: Seen) -> None:
    while not ends.is_set():
        counts: defaultdict[str, int] = defaultdict(int)
        for pod in await objects.items("v1", "pods", labels=LABEL_SERVICE):
            metadata = pod["metadata"]
            key = f"{metadata['namespace']}/{metadata['labels'][LABEL_SERVICE]} {metadata['labels']['component']}"
            counts[key] += _is_ready(pod)
        for service in await services_in(objects, ()):
            conditions = {item["type"]: item for item in service["status"].get("conditions", ())}
            ready = conditions.get("Ready", {})
            if ready.get("status") != "True":
                at, key = time.strftime("%H:%M:%S", time.gmtime()), service["metadata"]["name"]
                seen.not_ready.append(f"{at} {key}: {ready.get('status')} {ready.get('reason')} {ready.get('message')}")
        if not seen.looks:
            seen.first_pods = dict(counts)
            seen.fewest_pods = dict(counts)
        seen.fewest_pods = {key: min(fewest, counts[key]) for key, fewest in seen.fewest_pods.items()}
        seen.looks += 1
        await asyncio.sleep(1)


def _is_ready(pod: Any) -> bool:
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
