"""What `isvc validate` says of services is what the API server says of their children, and the initializer of URIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from isvc.run.check import Checked, Severity, check
from isvc.run.children_admission import refusals_of_child
from isvc.run.documents import YamlText
from storage_initializer.errors import ClaimNotMountedError, SourceNotFoundError
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source
from tests.support.apiserver import ApiServer, Refused
from tests.support.builders import the_shipped_runtime
from tests.support.mutated_documents import GOOD, mutated

COUNT = 1000  # services: twenty seconds


def without_owner(child: Any) -> dict[str, Any]:
    """The child as if it had been created by hand: the service of a file has no uid."""
    copy: dict[str, Any] = json.loads(json.dumps(child))
    del copy["metadata"]["ownerReferences"]
    return copy


def refused_by(server: ApiServer, child: dict[str, Any]) -> str:
    try:
        server.dry_run(child)
    except Refused as error:
        return str(error)
    return ""


def refused_by_initializer(child: Any) -> Iterator[str]:
    """What keeps the storage-initializer of a Deployment from asking for its sources."""
    for container in child["spec"].get("template", {}).get("spec", {}).get("initContainers", ()):
        if container["name"] == "storage-initializer":
            variables = {item["name"]: item.get("value", "") for item in container["env"]}
            try:
                plan = make_plan(container["args"], variables)
                for transfer in plan.transfers:
                    open_source(transfer, plan)
            except (ClaimNotMountedError, SourceNotFoundError):
                continue  # nothing is mounted here
            except Exception as error:  # noqa: BLE001 - unexpected ones count as well
                yield f"{container['args']}: {error!r}"


@pytest.fixture(scope="module")
def services() -> list[Checked]:
    texts = (YamlText("my.yaml", yaml.safe_dump(document)) for document in (*GOOD, *mutated(COUNT)))
    return [check([text], "default", installed=[the_shipped_runtime()], settings={}) for text in texts]


def test_a_child_is_refused_if_and_only_if_the_api_server_refuses_it(
    apiserver: ApiServer, services: list[Checked]
) -> None:
    children = [without_owner(child) for checked in services for item in checked.rendered for child in item.children]
    differences, refused = [], []
    for child in {json.dumps(child, sort_keys=True): child for child in children}.values():
        ours, theirs = list(refusals_of_child(child)), refused_by(apiserver, child)
        refused.append(bool(ours))
        if bool(ours) != bool(theirs):
            differences.append((child["metadata"]["name"], ours, theirs))

    assert differences == []
    assert min(refused.count(True), refused.count(False)) > 100  # it has met both


def test_what_is_called_ok_is_taken_by_the_initializer(services: list[Checked]) -> None:
    fine = [checked for checked in services if checked.rendered and not checked.texts(Severity.ERROR)]
    children = [child for checked in fine for item in checked.rendered for child in item.children]

    assert [why for child in children for why in refused_by_initializer(child)] == []
    assert len(fine) > 100
