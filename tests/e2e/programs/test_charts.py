"""The Helm charts of a release, rendered and installed by Helm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.release.build import write_manifests
from hack.release.charts import write_charts
from hack.release.version import current_version
from tests.support.apiserver import ApiServer, running
from tests.support.source_tree import ROOT

RELEASED = datetime(2026, 1, 1, tzinfo=UTC)
ENVIRONMENT = {**os.environ, "REGISTRY": "registry.example.com/isvc", "TAG": "7"}
NAMESPACE = "isvc-system"

Objects = dict[tuple[str, str, str], dict[str, Any]]  # by kind, namespace and name


@pytest.fixture(scope="module")
def helm() -> str:
    found = subprocess.run(["bash", "tests/cluster/program", "helm"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert found.returncode == 0, "Helm can be neither found nor built; it says above why"
    return found.stdout.strip()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    write_manifests(ROOT, folder, ENVIRONMENT)
    write_charts(ROOT, folder, RELEASED, ENVIRONMENT)
    return folder


def run_helm(helm: str, *arguments: str) -> str:
    done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chart(dist: Path, name: str) -> str:
    return str(dist / f"{name}-{current_version()}.tgz")


def rendered(helm: str, dist: Path, values: Mapping[str, object], name: str = "isvc-operator") -> Objects:
    settings = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    return objects_of(run_helm(helm, "template", name, chart(dist, name), f"--namespace={NAMESPACE}", *settings))


def objects_of(text: str) -> Objects:
    found = {}
    for item in filter(None, yaml.safe_load_all(text)):
        if item["kind"] == "ConfigMap":  # each value is JSON, in whichever layout
            item["data"] = {key: json.loads(value) for key, value in item["data"].items()}
        found[item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]] = item
    return found


# What is installed by the manifests, and the values by which the chart installs the same.
FORMS: dict[str, dict[str, object]] = {
    "install.yaml": {},
    "install-restricted.yaml": {"credentials.everywhere": False, "networkPolicy.enabled": True},
    "install-namespaced.yaml": {"namespaces": [NAMESPACE]},
    "install-ha.yaml": {"replicas": 2},
}


@pytest.mark.parametrize(("file", "values"), FORMS.items(), ids=FORMS)
def test_the_chart_renders_the_objects_of(file: str, values: dict[str, object], helm: str, dist: Path) -> None:
    by_chart, by_hand = rendered(helm, dist, values), objects_of((dist / file).read_text())

    by_hand.pop(("Namespace", "", NAMESPACE), None)  # helm install --create-namespace makes it
    watched = [watched_namespaces(objects) for objects in (by_chart, by_hand)]
    assert by_chart == by_hand
    assert watched in ([None, None], [NAMESPACE, "metadata.namespace"])


def watched_namespaces(objects: Objects) -> str | None:
    """Take the variable out of the Deployment: the chart has the names of the namespaces, kustomize one to refer to."""
    (container,) = objects["Deployment", NAMESPACE, "isvc-operator"]["spec"]["template"]["spec"]["containers"]
    found = [item for item in container["env"] if item["name"] == "WATCH_NAMESPACES"]
    container["env"] = [item for item in container["env"] if item not in found]
    return found[0].get("value") or found[0]["valueFrom"]["fieldRef"]["fieldPath"] if found else None


def test_the_chart_of_the_crds_renders_what_is_applied_before_and_keeps_it(helm: str, dist: Path) -> None:
    crds = rendered(helm, dist, {}, "isvc-operator-crds")

    assert [item["metadata"].pop("annotations") for item in crds.values()] == [{"helm.sh/resource-policy": "keep"}] * 4
    assert crds == objects_of((dist / "install-crds.yaml").read_text())
    assert crds == rendered(helm, dist, {"keep": False}, "isvc-operator-crds")


def test_monitoring_is_that_of_the_manifests(helm: str, dist: Path) -> None:
    with_it, without = rendered(helm, dist, {"monitoring.enabled": True}), rendered(helm, dist, {})
    kubectl = subprocess.check_output(["bash", "tests/cluster/program", "kubectl"], cwd=ROOT, text=True).strip()
    by_hand = subprocess.check_output([kubectl, "kustomize", str(ROOT / "manifests" / "monitoring")], text=True)

    assert with_it == without | objects_of(by_hand)


def test_the_dashboard_is_that_of_the_manifests(helm: str, dist: Path) -> None:
    with_it, without = rendered(helm, dist, {"dashboard.enabled": True}), rendered(helm, dist, {})

    assert with_it == without | objects_of((dist / "dashboard.yaml").read_text())


def test_the_dashboard_of_some_namespaces_has_roles_there_only(helm: str, dist: Path) -> None:
    values = {"namespaces": ["team-a", "team-b"], "dashboard.enabled": True, "dashboard.origins": ["https://x.example"]}
    objects = {key: item for key, item in rendered(helm, dist, values).items() if key[2] == "isvc-dashboard"}

    (container,) = objects["Deployment", NAMESPACE, "isvc-dashboard"]["spec"]["template"]["spec"]["containers"]
    binding = objects["RoleBinding", "team-b", "isvc-dashboard"]
    assert sorted(key[:2] for key in objects) == [
        ("Deployment", NAMESPACE), ("NetworkPolicy", NAMESPACE), ("Role", "team-a"), ("Role", "team-b"),
        ("RoleBinding", "team-a"), ("RoleBinding", "team-b"), ("Service", NAMESPACE), ("ServiceAccount", NAMESPACE),
    ]  # fmt: skip
    assert container["args"] == ["--namespace=team-a,team-b"]
    assert container["env"][0] == {"name": "DASHBOARD_ORIGINS", "value": "https://x.example"}
    assert (binding["roleRef"]["kind"], binding["subjects"][0]["namespace"]) == ("Role", NAMESPACE)


def test_several_namespaces_get_roles_and_runtimes_each(helm: str, dist: Path) -> None:
    teams = ["team-a", "team-b"]

    objects = rendered(helm, dist, {"namespaces": teams, "runtimes": ["isvc-mar", "kserve-sklearnserver"]})

    each = [(kind, name) for kind in ("Role", "RoleBinding") for name in ("isvc-operator", "isvc-operator-credentials")]
    runtimes = [("ServingRuntime", "isvc-mar"), ("ServingRuntime", "kserve-sklearnserver")]
    assert set(objects) == {
        *((kind, team, name) for team in teams for kind, name in (*each, *runtimes)),
        ("Role", NAMESPACE, "isvc-operator-home"),
        ("RoleBinding", NAMESPACE, "isvc-operator-home"),
        ("ServiceAccount", NAMESPACE, "isvc-operator"),
        ("ConfigMap", NAMESPACE, "inferenceservice-config"),
        ("Deployment", NAMESPACE, "isvc-operator"),
    }
    assert watched_namespaces(objects) == "team-a,team-b"


def test_secrets_are_read_only_in_these_namespaces(helm: str, dist: Path) -> None:
    objects = rendered(helm, dist, {"credentials": {"everywhere": False, "namespaces": ["team-a", "team-b"]}})

    found = [(kind, namespace) for kind, namespace, name in objects if name == "isvc-operator-credentials"]
    assert sorted(found) == [("ClusterRole", ""), ("RoleBinding", "team-a"), ("RoleBinding", "team-b")]


def test_values_reach_the_pod_and_the_configuration(helm: str, dist: Path) -> None:
    pod = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "c"}], "imagePullSecrets": [{"name": "d"}]}
    values = {
        **pod,
        "parallel": 16,
        "logLevel": "DEBUG",
        "resources": {"limits": {"memory": "1Gi"}},
        "podLabels": {"team": "ml"},
        "image.registry": "example.org/x",
        "image.tag": "8",
        "image.tags": {"mar": "7", "storage-initializer": "7"},
        "config.ingress.ingressDomain": "models.example.org",
        "config.security": {"autoMountServiceAccountToken": True},
        "config.logger": '{"defaultUrl": "http://sink"}',
    }

    objects = rendered(helm, dist, values)

    template = objects["Deployment", NAMESPACE, "isvc-operator"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    data = objects["ConfigMap", NAMESPACE, "inferenceservice-config"]["data"]
    runtimes = [objects["ClusterServingRuntime", "", name] for name in ("isvc-mar", "isvc-onnx")]
    images = [runtime["spec"]["containers"][0]["image"] for runtime in runtimes]
    assert {name: template["spec"][name] for name in pod} == pod
    assert template["metadata"]["labels"] == {"app.kubernetes.io/name": "isvc-operator", "team": "ml"}
    assert {item["name"]: item.get("value") for item in container["env"]}.items() >= {
        ("PARALLEL", "16"),
        ("LOG_LEVEL", "DEBUG"),
    }
    assert container["resources"] == values["resources"]
    assert [container["image"], data["storageInitializer"]["image"], *images] == [
        f"example.org/x/{name}" for name in ("operator:8", "storage-initializer:7", "mar:7", "onnx:8")
    ]
    assert data["ingress"]["ingressDomain"] == "models.example.org"
    assert data["ingress"]["domainTemplate"] == "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}"
    assert (data["security"], data["logger"]) == ({"autoMountServiceAccountToken": True}, {"defaultUrl": "http://sink"})


REFUSED = {
    'image.regsitry="x"': "at '/image': additional properties 'regsitry' not allowed",
    'namespaces=["A"]': "at '/namespaces/0': 'A' does not match pattern",
    "replicas=0": "at '/replicas': minimum: got 0, want 1",
    'logLevel="LOUD"': "at '/logLevel': value must be one of",
    'runtimes=["mar"]': "runtimes: there is no mar in manifests/runtimes or manifests/runtimes-kserve",
    'credentials.namespaces=["a"]': "credentials.namespaces has no effect while credentials.everywhere is true",
}


@pytest.mark.parametrize(("setting", "message"), REFUSED.items(), ids=REFUSED)
def test_a_value_that_is_not_valid_is_refused_with_its_place(setting: str, message: str, helm: str, dist: Path) -> None:
    command = [helm, "template", "isvc-operator", chart(dist, "isvc-operator"), "--set-json", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert message in done.stderr


@pytest.fixture
def empty(assets: Path) -> Iterator[ApiServer]:
    with running(assets) as server:
        yield server


def test_helm_takes_over_upgrades_and_keeps_crds_and_installs_the_operator(
    helm: str, dist: Path, empty: ApiServer
) -> None:
    def upgrade(name: str, *flags: str) -> None:
        options = (f"--kubeconfig={empty.kubeconfig}", f"--namespace={NAMESPACE}", "--create-namespace", "--install")
        run_helm(helm, "upgrade", name, chart(dist, name), *options, *flags)

    def columns() -> int:
        crd = empty.get("crd", "inferenceservices.serving.kserve.io")
        return len(crd["spec"]["versions"][0]["additionalPrinterColumns"])

    empty.kubectl("apply", "--server-side", f"--filename={dist / 'install-crds.yaml'}")
    empty.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    shipped = columns()
    patch = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]
    empty.kubectl("patch", "crd", "inferenceservices.serving.kserve.io", "--type=json", f"--patch={json.dumps(patch)}")
    older = columns()
    upgrade("isvc-operator-crds", "--take-ownership", "--force-conflicts")
    upgrade("isvc-operator-crds")
    upgrade("isvc-operator")
    upgrade("isvc-operator", "--set=logLevel=DEBUG")
    empty.kubectl("apply", "--server-side", f"--filename={ROOT / 'examples/bert/inferenceservice.yaml'}")
    run_helm(helm, "uninstall", "isvc-operator-crds", f"--kubeconfig={empty.kubeconfig}", f"--namespace={NAMESPACE}")

    assert (older, columns()) == (shipped - 1, shipped)
    runtimes = empty.get("clusterservingruntimes")["items"]
    assert {item["metadata"]["name"] for item in runtimes} == {"isvc-mar", "isvc-onnx", "kserve-torchserve"}
    assert len(empty.get("inferenceservices", "--all-namespaces")["items"]) == 1
