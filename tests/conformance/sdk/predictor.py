"""A server that a test makes up: what it answers is by the model's name, and what it is asked is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

_SENT = ("content-type", "authorization", "x-own", "x-request-id", "x-b3-traceid", "inference-header-content-length")
_OUTPUT = {"name": "y", "shape": [2], "datatype": "INT64", "data": [1, 2]}
_RAW_OUTPUT = {"name": "y", "shape": [2], "datatype": "INT64", "parameters": {"binary_data_size": 16}}
_RAW = np.array([1, 2], np.int64).tobytes()

Answer = tuple[int, Any, dict[str, str]]


def _answer(path: str) -> Answer:
    """By the model's name, which is in the path: what a server with that trouble says."""
    for name, answer in _ANSWERS.items():
        if name in path:
            return answer
    if path.startswith("/v2/") and path.endswith("/infer"):
        return 200, {"id": "7", "model_name": "m", "outputs": [_OUTPUT]}, {"x-theirs": "1"}
    return 200, _PATHS.get(path, {"predictions": [1]}), {"x-theirs": "1"}


_PATHS = {
    "/": {"status": "alive"}, "/v2/health/live": {"live": True}, "/v2/health/ready": {"ready": True},
    "/v1/models/m": {"name": "m", "ready": True}, "/v2/models/m/ready": {"name": "m", "ready": True},
    "/under/v1/models/m": {"name": "m", "ready": True}, "/dead/": {"status": "dead"},
    "/dead/v2/health/live": {"live": False}, "/dead/v2/health/ready": {"ready": False},
}  # fmt: skip
_raw_text = json.dumps({"model_name": "m", "outputs": [_RAW_OUTPUT]}).encode()
_ANSWERS: dict[str, Answer] = {
    "raw": (200, _raw_text + _RAW, {"inference-header-content-length": str(len(_raw_text)),
                                    "content-type": "application/octet-stream"}),
    "refused": (400, {"error": "no"}, {}),
    "missing": (404, {"error": "no"}, {}),
    "busy": (503, {"error": "no"}, {}),
    "broken": (500, b"<html>", {"content-type": "text/html"}),
    "redirected": (302, b"", {"location": "/"}),
    "garbage": (200, b"{", {"content-type": "application/json"}),
    "empty": (200, {}, {}),
    "unready": (200, {"name": "unready", "ready": False}, {}),
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[Any]

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            document = json.loads(body[: int(self.headers.get(_SENT[-1], len(body)))] or b"null")
        except ValueError:
            document = body
        kept = {name: self.headers[name] for name in _SENT if name in self.headers and name != _SENT[-1]}
        self.seen.append([self.command, self.path, kept, document])
        status, answer, headers = _answer(self.path)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def scripted_server() -> Iterator[tuple[str, list[Any]]]:
    """Its URL, and what it is asked."""
    seen: list[Any] = []
    handler = type("Handler", (_Handler,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
