"""Other controllers of a cluster: clients and webhooks that do not leave the children of services as they are."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.apiserver import ApiServer, Refused
from tests.support.object_stores.tls import issue

STRATEGIC = "application/strategic-merge-patch+json"
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


@contextlib.contextmanager
def fighter(server: ApiServer, uri: str, change: Change, *, manager: str) -> Iterator[None]:
    """A controller that patches the object whenever ``change`` has a patch for it, or deletes it for an empty one."""
    ends = threading.Event()

    def play() -> None:
        while not ends.wait(0.02):
            with contextlib.suppress(Refused):  # it does not exist, or has changed meanwhile
                patch = change(server.send("GET", uri))
                if patch:
                    server.send("PATCH", f"{uri}?fieldManager={manager}", patch, content=STRATEGIC)
                elif patch is not None:
                    server.send("DELETE", uri)

    playing = threading.Thread(target=play)
    playing.start()
    try:
        yield
    finally:
        ends.set()
        playing.join()


@contextlib.contextmanager
def webhook(server: ApiServer, namespace: str, folder: Path, patches: list[dict[str, Any]]) -> Iterator[None]:
    """A mutating webhook that applies a JSON patch to each Deployment of the namespace that is written."""
    certificate = issue(folder)
    answering = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _answering(patches))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    answering.socket = context.wrap_socket(answering.socket, server_side=True)
    serving = threading.Thread(target=answering.serve_forever)
    serving.start()
    uri = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    try:
        server.send("POST", uri, _configuration(namespace, answering.server_port, certificate.authority))
        yield
    finally:
        with contextlib.suppress(Refused):
            server.send("DELETE", f"{uri}/{namespace}")
        answering.shutdown()
        answering.server_close()
        serving.join()


def _configuration(namespace: str, port: int, authority: Path) -> dict[str, Any]:
    hook = {
        "name": "policy.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        },
        "rules": [
            {
                "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
                "operations": ["CREATE", "UPDATE"],
            },
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    return {"metadata": {"name": namespace}, "webhooks": [hook]}


def _answering(patches: list[dict[str, Any]]) -> type[http.server.BaseHTTPRequestHandler]:
    patch = base64.b64encode(json.dumps(patches).encode()).decode()

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
            body = json.dumps({**review, "request": None, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            """Log nothing."""

    return Answering
