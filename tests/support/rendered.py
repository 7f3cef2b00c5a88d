"""What is made of objects in files."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from isvc.run.check import Checked, check
from isvc.run.documents import YamlText, parse_documents
from isvc.run.files import read_runtimes
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.manifests import Manifest


def checked(*documents: dict[str, Any]) -> Checked:
    """What `isvc validate` finds in a file with these objects, with the shipped runtimes."""
    return checked_text("\n---\n".join(map(json.dumps, documents)))


def checked_text(text: str) -> Checked:
    """What it finds in a file with this text."""
    return check([YamlText("a.yaml", text)], "default", installed=_shipped(), settings=None)


@functools.cache
def _shipped() -> Sequence[ServingRuntime]:
    return parse_documents(read_runtimes(None), "default").runtimes


def children_of(document: dict[str, Any]) -> tuple[Manifest, ...]:
    """What `isvc render` prints for a service."""
    (rendered,) = checked(document).rendered
    return rendered.children
