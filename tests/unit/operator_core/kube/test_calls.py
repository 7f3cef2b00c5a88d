"""The verb of a request to the API server."""

from __future__ import annotations

import pytest

from isvc_operator.kube.calls import verb_of


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("GET", "/api/v1/pods", {}, "list"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch"),
        ("GET", "/api/v1/namespaces/a/pods", {"limit": "500"}, "list"),
        ("GET", "/api/v1/namespaces/a/pods/b", {}, "get"),
        ("GET", "/api/v1/namespaces/a/pods/b/log", {}, "get"),
        ("GET", "/api/v1/namespaces", {}, "list"),
        ("GET", "/api/v1/namespaces/a", {}, "get"),
        ("GET", "/apis/apps/v1/deployments", {}, "list"),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b", {}, "get"),
        ("GET", "/apis/apps/v1", {}, "get"),
        ("GET", "/apis", {}, "get"),
        ("GET", "/version", {}, "get"),
        ("POST", "/api/v1/namespaces/a/events", {}, "create"),
        ("PATCH", "/api/v1/namespaces/a/services/b", {}, "patch"),
        ("PUT", "/api/v1/namespaces/a/services/b", {}, "update"),
        ("DELETE", "/api/v1/namespaces/a/services/b", {}, "delete"),
    ],
)
def test_a_request_has_the_verb_of_the_audit_log(method: str, path: str, query: dict[str, str], verb: str) -> None:
    assert verb_of(method, path, query) == verb
