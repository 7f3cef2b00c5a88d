"""Installing the CRDs on a real API server, once and again."""

from __future__ import annotations

from typing import Any

from isvc.crds import RESOURCES, build_crd
from isvc_operator.api.names import GROUP
from tests.support.apiserver import CRDS, ApiServer, install_crds


def versions_of(server: ApiServer) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in server.crds()}


def ours(server: ApiServer) -> list[dict[str, Any]]:
    """Those of our kinds: other tests install CRDs of others on the same server."""
    return [item for item in server.crds() if item["spec"]["group"] == GROUP]


def test_the_server_keeps_every_word_of_the_files(apiserver: ApiServer) -> None:
    stored = {item["metadata"]["name"]: item["spec"] for item in ours(apiserver)}
    assert stored == {
        resource.name: build_crd(resource)["spec"] | {"conversion": {"strategy": "None"}} for resource in RESOURCES
    }


def test_installing_again_changes_nothing(apiserver: ApiServer) -> None:
    before = versions_of(apiserver)
    install_crds(apiserver)
    assert versions_of(apiserver) == before


def test_they_can_be_applied_without_server_side_apply(apiserver: ApiServer) -> None:
    """It keeps each file in an annotation, whose size is limited."""
    apiserver.kubectl("apply", f"--filename={CRDS}")
    before = versions_of(apiserver)
    apiserver.kubectl("apply", f"--filename={CRDS}")
    assert versions_of(apiserver) == before
