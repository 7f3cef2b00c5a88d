"""What `isvc validate` says of services is what the API server says of their children, and the initializer of URIs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from isvc.run.builtin_admission import builtin_refusals
from isvc.run.check import Checked, Severity, check
from isvc.run.children import Rendered
from isvc.run.documents import YamlText
from isvc.run.objects import text_of
from isvc_operator.manifests import Container
from isvc_operator.resolve.storage.plan import Objects
from storage_initializer.errors import CertificateError, ClaimNotMountedError, SourceNotFoundError
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source
from tests.support.apiserver import ApiServer, Refused
from tests.support.builders import the_shipped_runtime
from tests.support.mutated_documents import SECRETS, SERVICES, mutated
from tests.support.sample_services import model, service

COUNT, SECRET_COUNT = 1000, 100  # services, and secrets of each kind


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


def refused_by_initializer(item: Rendered) -> Iterator[str]:
    """What keeps the storage-initializer of a service from asking for its sources."""
    pods = [child["spec"]["template"]["spec"] for child in item.children if child["kind"] == "Deployment"]
    for container in (container for pod in pods for container in pod.get("initContainers", ())):
        if container["name"] == "storage-initializer":
            try:
                plan = make_plan(container["args"], dict(variables(container, item.objects)))
                for transfer in plan.transfers:
                    open_source(transfer, plan)
            except (CertificateError, ClaimNotMountedError, SourceNotFoundError):
                continue  # nothing is mounted here
            except Exception as error:  # noqa: BLE001 - unexpected ones count as well
                yield f"{container['args']}: {error!r}"


def variables(container: Container, objects: Objects) -> Iterator[tuple[str, str]]:
    """The variables as the kubelet has them."""
    known: dict[str, str] = {}
    for item in container["env"]:
        text = text_of(item["valueFrom"], objects) if "valueFrom" in item else item.get("value", "")
        known[item["name"]] = re.sub(r"\$\((\w+)\)", lambda found: known.get(found[1], found[0]), text or "")
        yield item["name"], known[item["name"]]


@pytest.fixture(scope="module")
def services() -> list[Checked]:
    texts = (
        YamlText("my.yaml", yaml.dump(document, Dumper=yaml.CSafeDumper))
        for document in (*SERVICES, *mutated(SERVICES, COUNT, parts=("metadata", "spec")))
    )
    return [check([text], "default", installed=[the_shipped_runtime()], settings={}) for text in texts]


def test_a_child_is_refused_if_and_only_if_the_api_server_refuses_it(
    apiserver: ApiServer, services: list[Checked]
) -> None:
    children = [without_owner(child) for checked in services for item in checked.rendered for child in item.children]
    differences, refused = [], []
    for child in {json.dumps(child, sort_keys=True): child for child in children}.values():
        ours, theirs = list(builtin_refusals(child)), refused_by(apiserver, child)
        refused.append(bool(ours))
        if bool(ours) != bool(theirs):
            differences.append((child["metadata"]["name"], ours, theirs))

    assert differences == []
    assert min(refused.count(True), refused.count(False)) > 100  # it has met both


def test_a_source_is_taken_by_the_initializer_if_its_service_is_ok(services: list[Checked]) -> None:
    fine = [item for checked in services if not checked.texts(Severity.ERROR) for item in checked.rendered]

    assert [why for item in fine for why in refused_by_initializer(item)] == []
    assert len(fine) > 100


@pytest.mark.parametrize("uri", SECRETS)
def test_a_secret_is_taken_by_the_initializer_if_the_service_is_ok(uri: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    beside = [service("a", predictor=model(storageUri=uri)), account | {"secrets": [{"name": "keys"}]}]
    fine, differences = 0, []
    for secret in (SECRETS[uri], *mutated([SECRETS[uri]], SECRET_COUNT, parts=("metadata", "stringData"))):
        text = YamlText("my.yaml", yaml.safe_dump_all([*beside, secret]))
        checked = check([text], "default", installed=[the_shipped_runtime()], settings={})
        if not checked.texts(Severity.ERROR, Severity.NOT_CHECKED):
            fine += 1
            differences += [(secret, why) for item in checked.rendered for why in refused_by_initializer(item)]

    assert differences == []
    assert fine > SECRET_COUNT // 10
