"""The overlay for one namespace, moved to a namespace as docs/install.md says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.support.source_tree import ROOT

OVERLAY = ROOT / "manifests" / "overlays" / "namespaced"


class Kubectl(Protocol):
    """What runs kubectl."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str: ...


def rendered_for(namespace: str, server: Kubectl, home: Path) -> list[dict[str, Any]]:
    """The overlay's objects in that namespace; ``home`` is for the kustomization."""
    relative = os.path.relpath(OVERLAY, home)
    (home / "kustomization.yaml").write_text(yaml.safe_dump({"namespace": namespace, "resources": [relative]}))
    return [*yaml.safe_load_all(server.kubectl("kustomize", str(home), "--load-restrictor=LoadRestrictionsNone"))]
