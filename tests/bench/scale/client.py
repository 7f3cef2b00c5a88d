"""The client whose services are measured: it creates them as fast as it can, and watches what becomes of them."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import urllib3

from tests.support.apiserver import ApiServer

log = logging.getLogger(__name__)

_CONNECTIONS = 16
_TIMEOUT = 60.0  # seconds; a server that creates thousands of objects is slow
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Requests of an administrator, many at once."""

    def __init__(self, server: ApiServer) -> None:
        host, _, port = server.base_url.removeprefix("https://").partition(":")
        self._pool = urllib3.HTTPSConnectionPool(
            host, int(port), ca_certs=str(server.ca_file), timeout=_TIMEOUT, maxsize=_CONNECTIONS, block=True
        )
        self._headers = {"Authorization": f"Bearer {server.token}", "User-Agent": "bench"}

    def send(self, method: str, uri: str, body: object = None, content: str = JSON) -> dict[str, Any]:
        """The answer; AssertionError when it is an error."""
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, uri, data, headers={**self._headers, "Content-Type": content})
        found: dict[str, Any] = answer.json()
        assert answer.status < 400, f"{method} {uri}: {found}"
        return found

    def create_all(self, collection: str, objects: Sequence[dict[str, Any]]) -> None:
        """Create objects of a kind."""
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(lambda item: self.send("POST", collection, item), objects))

    def stream(self, uri: str) -> urllib3.BaseHTTPResponse:
        """An answer whose lines come one by one."""
        return self._pool.request("GET", uri, headers=self._headers, preload_content=False, timeout=None)

    def close(self) -> None:
        self._pool.close()


@dataclass
class Watched:
    """The objects of a collection as they are now, by name; ``changed`` is called in the thread that watches."""

    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: list[Callable[[dict[str, Any], float], None]] = field(default_factory=list)

    def read(self, answer: urllib3.BaseHTTPResponse) -> None:
        """Read events until the connection is closed, by us or by a server for which we are too slow."""
        rest = b""
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            for chunk in answer.read_chunked():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        item, now = event["object"], time.time()
        name = item["metadata"]["name"]
        if event["type"] == "DELETED":
            self.items.pop(name, None)
            return
        self.items[name] = item
        for call in self.changed:
            call(item, now)


@contextlib.contextmanager
def watching(client: Client, collection: str) -> Iterator[Watched]:
    """The objects of a collection, watched until the end of the block."""
    watched, ends = Watched(), threading.Event()
    answers = [client.stream(f"{collection}?watch=true")]

    def follow() -> None:
        while True:
            watched.read(answers[-1])
            answers[-1].release_conn()
            if ends.is_set():
                return
            log.info("%s is watched again", collection)  # from its objects as they are now
            answers.append(client.stream(f"{collection}?watch=true"))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ends.set()
        answers[-1].shutdown()
        thread.join()
