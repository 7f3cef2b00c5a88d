"""Every child of whole services, as files: `cases/<name>/input.yaml` becomes `cases/<name>/children.yaml`.

An input is an InferenceService and, if the case needs them, runtimes, what its storage refers to, and the ConfigMap
`inferenceservice-config`. The shipped runtimes are always there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc_operator.api.inference_service import parse_inference_service
from isvc_operator.api.serving_runtime import parse_serving_runtime
from isvc_operator.api.storage_container import parse_storage_container
from isvc_operator.config import parse_config
from isvc_operator.local.documents import parse_documents
from isvc_operator.local.files import read_runtimes
from isvc_operator.local.objects import as_stored
from isvc_operator.render.children import render
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from isvc_operator.resolve.storage.objects import ObjectReference
from isvc_operator.resolve.storage.plan import StorageContext
from isvc_operator.resolve.storage.requests import storage_requests

CASES = Path(__file__).parent / "cases"
SHIPPED = parse_documents(read_runtimes(None), "default").runtimes


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_the_children_of(case: str, check_golden: Callable[[Path, list[dict[str, Any]]], None]) -> None:
    children = children_of(list(yaml.safe_load_all((CASES / case / "input.yaml").read_text())))

    check_golden(CASES / case / "children.yaml", children)


def children_of(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the operator renders for the one service among the documents."""

    def of_kind(kind: str) -> list[dict[str, Any]]:
        return [document for document in documents if document["kind"] == kind]

    (body,) = of_kind("InferenceService")
    service = parse_inference_service(body)
    runtimes = Runtimes(
        namespaced=tuple(map(parse_serving_runtime, of_kind("ServingRuntime"))),
        cluster=(*SHIPPED, *map(parse_serving_runtime, of_kind("ClusterServingRuntime"))),
    )
    objects = [as_stored(item) for kind in ("ServiceAccount", "Secret") for item in of_kind(kind)]
    storage = StorageContext(
        requests=storage_requests(service),
        containers=tuple(map(parse_storage_container, of_kind("ClusterStorageContainer"))),
        objects={ObjectReference(item["kind"], item["metadata"]["name"]): item for item in objects},
    )
    config = parse_config({key: text for item in of_kind("ConfigMap") for key, text in item["data"].items()})
    return render(resolve(service, runtimes, config, storage=storage), config)
