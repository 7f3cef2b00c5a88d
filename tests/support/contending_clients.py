"""Other controllers of a cluster: clients and webhooks that do not leave the children of services as they are."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.apiserver import ApiServer, Refused
from tests.support.object_stores.proxy import Answer, Request, proxy
from tests.support.object_stores.tls import issue

STRATEGIC = "application/strategic-merge-patch+json"
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


@contextlib.contextmanager
def rival(server: ApiServer, uri: str, change: Change, *, manager: str) -> Iterator[None]:
    """A controller that patches the object whenever ``change`` has a patch for it, or deletes it for an empty one."""
    ends = threading.Event()

    def reconcile() -> None:
        while not ends.wait(0.02):
            with contextlib.suppress(Refused):  # it does not exist, or has changed meanwhile
                patch = change(server.send("GET", uri))
                if patch:
                    server.send("PATCH", f"{uri}?fieldManager={manager}", patch, content=STRATEGIC)
                elif patch is not None:
                    server.send("DELETE", uri)

    reconciling = threading.Thread(target=reconcile)
    reconciling.start()
    try:
        yield
    finally:
        ends.set()
        reconciling.join()


@contextlib.contextmanager
def webhook(server: ApiServer, namespace: str, folder: Path, patches: list[dict[str, Any]]) -> Iterator[None]:
    """A mutating webhook that applies a JSON patch to each Deployment of the namespace that is written."""
    certificate, patch = issue(folder), base64.b64encode(json.dumps(patches).encode()).decode()
    uri = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

    def review(request: Request) -> Answer:
        asked = json.loads(request.body)
        answer = {"uid": asked["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        content = json.dumps({**asked, "request": None, "response": answer}).encode()
        return Answer(200, content, {"Content-Type": "application/json"})

    with proxy(None, review, certificate) as answering:
        try:
            server.send("POST", uri, _configuration(namespace, answering.url, certificate.authority))
            yield
        finally:
            with contextlib.suppress(Refused):
                server.send("DELETE", f"{uri}/{namespace}")


def _configuration(namespace: str, url: str, authority: Path) -> dict[str, Any]:
    hook = {
        "name": "policy.example.com",
        "clientConfig": {
            "url": f"{url}/",
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
