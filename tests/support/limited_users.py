"""People who may read some of a real API server: an account with a Role, and its kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.apiserver import ApiServer

READ = ("get", "list", "watch")
SERVICES = {"apiGroups": ["serving.kserve.io"], "resources": ["inferenceservices"], "verbs": [*READ]}
PODS = {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": [*READ]}


def a_reader_of_all(server: ApiServer, namespace: str, rules: Sequence[dict[str, Any]], folder: Path) -> Path:
    """The kubeconfig of an account of the namespace that has these rules in the whole cluster."""
    kubeconfig = a_reader(server, namespace, [], folder)
    rbac, name = "/apis/rbac.authorization.k8s.io/v1", f"reader-{namespace}"
    server.send("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": [*rules]})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    server.send("POST", f"{rbac}/clusterrolebindings", binding)
    return kubeconfig


def a_reader(
    server: ApiServer, namespace: str, rules: Sequence[dict[str, Any]], folder: Path, *, name: str = "reader"
) -> Path:
    """The kubeconfig of an account that has these rules in the namespace."""
    place = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.send("POST", place, {"metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = server.send("POST", f"{place}/{name}/token", request)["status"]["token"]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    server.send("POST", f"{rbac}/roles", {"metadata": {"name": name}, "rules": [*rules]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    server.send("POST", f"{rbac}/rolebindings", binding)
    config = json.loads(server.kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": {"token": token}}]
    path = folder / f"{namespace}-{name}.kubeconfig"
    path.write_text(json.dumps(config))
    return path
