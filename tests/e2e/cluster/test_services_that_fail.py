"""Services that cannot work: `kubectl describe isvc` names the cause and what to do."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from isvc_operator.manifests import Manifest
from tests.e2e.cluster.services_page import ServicesPage
from tests.support.breaking_services import a_breaking_service
from tests.support.diagnose_output import assert_diagnosed
from tests.support.namespace import Namespace, small_service
from tests.support.volumes import Volume, claimed

WITHIN = 180.0  # seconds; the pods of other tests may fill the node for a while
ARCHIVE = "model-store/bert-model.mar"


def with_a_truncated_archive(folder: Path) -> None:
    archive = folder / ARCHIVE
    archive.write_bytes(archive.read_bytes()[:-1000])


def with_a_raising_handler(folder: Path) -> None:
    """The same archive, its handler's ``initialize`` raising."""
    archive = folder / ARCHIVE
    source = archive.with_suffix(".original")
    archive.rename(source)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(archive, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry == "handler.py":
                line = b"        super().initialize(context)\n"
                content = content.replace(line, b'        raise RuntimeError("no licence for this model")\n')
            new.writestr(entry, content)
    source.unlink()


def with_nothing_wrong(folder: Path) -> None:
    """What fails is not in the files."""


SPOILT: dict[str, Callable[[Path], None]] = {
    "intact": with_nothing_wrong,
    "truncated": with_a_truncated_archive,
    "raising": with_a_raising_handler,
}


@pytest.fixture(scope="module")
def cases(namespace: Namespace, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    """The claim ``cases``: one folder for each way in which the story's files can be wrong."""
    folder = tmp_path_factory.mktemp("cases")
    for name, spoil in SPOILT.items():
        shutil.copytree(bert, folder / name)
        spoil(folder / name)
    with Volume(namespace, "cases").filled_from(folder) as volume:
        yield volume


def apply(namespace: Namespace, name: str, volumes: Sequence[Manifest] = (), **model: Any) -> None:
    service = small_service()
    service["metadata"]["name"] = name
    service["spec"]["predictor"]["model"].update(model)
    if volumes:
        service["spec"]["predictor"]["volumes"] = volumes
    namespace.apply(service)


def described(page: ServicesPage, name: str, reason: str, *words: str, log: bool | None = False) -> str:
    """What `kubectl describe isvc` prints once Ready is False for ``reason``; the line breaks of its layout undone.

    `isvc diagnose` names the same reason first, these words of its cause, and what to do. The page has both, too.
    """
    namespace = page.namespace
    namespace.wait_for_condition("Ready", "False", reason, name, WITHIN)
    text = namespace.kubectl("describe", "isvc", name)
    page.shows(name, reason, *words)
    assert_diagnosed(namespace, name, reason, *words, log=log)
    namespace.kubectl("delete", "isvc", name, "--wait=false")
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("folder", "reason", "words"),
    [
        ("truncated", "StorageInitializerFailed", ["bert-model.mar", "truncated"]),
        ("raising", "ServerFailed", ["bert", "RuntimeError", "no licence for this model", "handler.py"]),
    ],
)
def test_files_that_cannot_be_served_are_named(
    namespace: Namespace, page: ServicesPage, cases: Volume, folder: str, reason: str, words: list[str]
) -> None:
    apply(namespace, folder, storageUri=f"pvc://cases/{folder}")
    text = described(page, folder, reason, *words, log=True)
    for word in (*words, "exit code"):
        assert word in text
    assert "Last log lines" in text
    assert f"Warning {reason}" in text  # the Event


def test_a_probe_that_has_ended_the_server_is_named(namespace: Namespace, page: ServicesPage, cases: Volume) -> None:
    probe = {"httpGet": {"path": "/nowhere", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
    apply(namespace, "no-time", storageUri="pvc://cases/intact", startupProbe=probe)
    cause = "it was killed after its startup probe failed: "
    text = described(page, "no-time", "ServerFailed", cause, log=None)
    assert cause in text


@dataclass(frozen=True)
class Fixed:
    """A reason, a service that is not ready for it, and with its fix: the service, and what is created beside it."""

    reason: str
    wrong: Manifest
    mended: Manifest
    created: Sequence[Manifest] = ()


def a_secret(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"key": "text"}}


def a_probe(failures: int, path: str = "/v2/health/ready") -> Manifest:
    return {"httpGet": {"path": path, "port": 8080}, "periodSeconds": 1, "failureThreshold": failures}


OF_LICENCE = {"env": [{"name": "LICENCE", "valueFrom": {"secretKeyRef": {"name": "licence", "key": "key"}}}]}
WITH_LICENCE = {
    "volumes": [{"name": "licence", "secret": {"secretName": "licence-file"}}],
    "volumeMounts": [
        {"name": "licence", "mountPath": "/licence"}
    ],  # what nothing mounts, the kubelet does not look for
}
FIXES: dict[str, Fixed] = {
    "fix-claim": Fixed("ClaimNotFound", {"storageUri": "pvc://nowhere"}, {}),
    "fix-requests": Fixed("Unschedulable", {"resources": {"requests": {"cpu": "1000"}, "limits": {"cpu": "1000"}}}, {}),
    "fix-image": Fixed("ImagePullFailed", {"image": "registry.invalid/nowhere:1"}, {}),
    "fix-policy": Fixed("PodsRefused", {"securityContext": {"allowPrivilegeEscalation": True}}, {}),
    "fix-env": Fixed("ContainerConfigInvalid", OF_LICENCE, OF_LICENCE, [a_secret("licence")]),
    "fix-volume": Fixed("VolumeNotMounted", WITH_LICENCE, WITH_LICENCE, [a_secret("licence-file")]),
    "fix-probe": Fixed("ServerFailed", {"startupProbe": a_probe(1, "/nowhere")}, {"startupProbe": a_probe(600)}),
    "fix-liveness": Fixed("ServerFailed", {"livenessProbe": a_probe(1, "/nowhere")}, {"livenessProbe": a_probe(600)}),
    "fix-memory": Fixed("ServerFailed", {"resources": {"limits": {"memory": "64Mi"}}}, {}),
}


@pytest.mark.parametrize("name", FIXES)
def test_a_service_is_ready_once_its_fix_is_followed(namespace: Namespace, cases: Volume, name: str) -> None:
    fixed, files = FIXES[name], {"storageUri": f"pvc://{cases.claim}/intact"}
    apply(namespace, name, **{**files, **fixed.wrong})
    namespace.wait_for_condition("Ready", "False", fixed.reason, name, WITHIN)

    namespace.apply(*fixed.created)
    apply(namespace, name, **{**files, **fixed.mended})

    namespace.wait_for_condition("Ready", "True", None, name, WITHIN)
    namespace.kubectl("delete", "isvc", name, "--wait=false")


def test_a_service_is_ready_once_its_service_account_exists(namespace: Namespace) -> None:
    namespace.apply(a_breaking_service("account", serviceAccountName="late"))
    namespace.wait_for_condition("Ready", "False", "ServiceAccountNotFound", "account", WITHIN)
    assert_diagnosed(namespace, "account", "ServiceAccountNotFound", 'serviceaccount "late" not found')

    namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late"}})

    namespace.wait_for_condition("Ready", "True", None, "account", WITHIN)
    namespace.kubectl("delete", "isvc", "account", "--wait=false")


def test_a_service_is_ready_once_its_claim_has_a_volume(namespace: Namespace, cases: Volume) -> None:
    volume, claim = claimed(namespace.name, "late", cases.path)
    namespace.apply(claim)
    apply(namespace, "fix-late", storageUri="pvc://late/intact")
    namespace.wait_for_condition("Ready", "False", "ClaimNotBound", "fix-late", WITHIN)

    namespace.apply(volume)

    namespace.wait_for_condition("Ready", "True", None, "fix-late", WITHIN)
    namespace.kubectl("delete", "isvc", "fix-late", "--wait=false")
    namespace.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")


def mounting(name: str, claim: str) -> Manifest:
    """A service whose pods have a claim of their own."""
    service = a_breaking_service(name)
    service["spec"]["predictor"]["volumes"].append({"name": "own", "persistentVolumeClaim": {"claimName": claim}})
    return service


def test_a_service_is_ready_once_nobody_else_has_its_claim(namespace: Namespace, cases: Volume) -> None:
    volume, claim = claimed(namespace.name, "once", f"{cases.path}/once")
    for item in (volume, claim):
        item["spec"]["accessModes"] = ["ReadWriteOncePod"]
    namespace.apply(volume, claim, mounting("first", "once"))
    namespace.wait_for_condition("Ready", "True", None, "first", WITHIN)
    namespace.apply(mounting("second", "once"))
    namespace.wait_for_condition("Ready", "False", "ClaimInUse", "second", WITHIN)
    assert_diagnosed(namespace, "second", "ClaimInUse", "ReadWriteOncePod")

    namespace.kubectl("delete", "isvc", "first", "--wait=false")

    namespace.wait_for_condition("Ready", "True", None, "second", WITHIN)
    namespace.kubectl("delete", "isvc", "second", "--wait=false")
    namespace.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")


def test_a_service_is_ready_once_its_claims_volume_is_on_its_node(namespace: Namespace, cases: Volume) -> None:
    volume, claim = claimed(namespace.name, "elsewhere", f"{cases.path}/elsewhere")
    place = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["elsewhere"]}
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}}
    namespace.apply(volume, claim, mounting("fix-place", "elsewhere"))
    namespace.wait_for_condition("Ready", "False", "ClaimElsewhere", "fix-place", WITHIN)
    assert_diagnosed(namespace, "fix-place", "ClaimElsewhere", "node affinity")

    namespace.apply(*claimed(namespace.name, "here", f"{cases.path}/here"), mounting("fix-place", "here"))

    namespace.wait_for_condition("Ready", "True", None, "fix-place", WITHIN)
    namespace.kubectl("delete", "isvc", "fix-place", "--wait=false")
    for name in ("elsewhere", "here"):
        namespace.kubectl("delete", "pv", f"{namespace.name}-{name}", "--wait=false")


def test_a_service_is_ready_once_its_image_has_a_user(namespace: Namespace) -> None:
    namespace.apply(a_breaking_service("fix-root", {"image": "localhost/pause:1"}))
    namespace.wait_for_condition("Ready", "False", "ContainerConfigInvalid", "fix-root", WITHIN)
    assert_diagnosed(namespace, "fix-root", "ContainerConfigInvalid", "image will run as root")

    namespace.apply(a_breaking_service("fix-root"))

    namespace.wait_for_condition("Ready", "True", None, "fix-root", WITHIN)
    namespace.kubectl("delete", "isvc", "fix-root", "--wait=false")
