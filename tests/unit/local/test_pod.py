"""A rendered Deployment as the pod that this machine runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from isvc.run.children import render_services
from isvc.run.container import Machine, Probe, Process
from isvc.run.documents import Documents, parse_documents
from isvc.run.errors import UnusableInput
from isvc.run.files import read_files, read_runtimes
from isvc.run.pod import PodPlan, plan_pod
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.storage.plan import Objects
from tests.support.local_services import FAKE_RUNTIME, parsed, runtime, service

SAMPLE = Path(__file__).parents[3] / "examples/bert/inferenceservice.yaml"
FOLDER = Path("/run/0")


def machine(claims: Iterable[str] = ("models",), objects: Objects | None = None) -> Machine:
    return Machine(
        objects=objects or {},
        folder=FOLDER,
        claims={claim: Path("/data") / claim for claim in claims},
        environment={},
        python="/venv/bin/python",
        free_port=_ports(40001),
    )


def _ports(first: int) -> Callable[[], int]:
    ports = iter(range(first, first + 10))
    return lambda: next(ports)


def plan(*, predictor: dict[str, Any] | None = None, uri: str = "pvc://models", **container: Any) -> PodPlan:
    body = service(uri=uri)
    body["spec"]["predictor"] |= predictor or {}
    return plan_pod(deployment(parsed(body, runtime(**container))), machine())


def deployment(given: Documents) -> dict[str, Any]:
    installed = parse_documents(read_runtimes(None), "default").runtimes
    (rendered,), _ = render_services(given, installed, OperatorConfig())
    return rendered.children[0]


def test_the_samples_pod_is_an_initializer_and_a_server_that_share_a_folder() -> None:
    pod = plan_pod(deployment(parse_documents(read_files([SAMPLE]), "default")), machine(["leeway"]))

    models = "/run/0/kserve-provision-location"
    names = {"/run/0/.claims/leeway": "/data/leeway", models: "/data/leeway"}
    assert pod == PodPlan(
        folder=FOLDER,
        folders=(FOLDER / ".tmp", FOLDER / ".termination", Path(models), FOLDER / "scratch"),
        files={},
        links={FOLDER / ".claims/leeway": Path("/data/leeway")},
        ports={8080: 40001, 8081: 40002},
        init=(
            Process(
                name="torchserve/storage-initializer",
                command=("/venv/bin/python", "-P", "-m", "storage_initializer", "pvc://leeway", models),
                env={
                    "PYTHONUNBUFFERED": "1",
                    "HTTP_HOST": "127.0.0.1",
                    "GRPC_PORT": "40002",
                    "TMPDIR": "/run/0/.tmp",
                    "STORAGE_LAYOUT": "auto",
                    "STORAGE_PVC_ROOT": "/run/0/.claims",
                    "TERMINATION_LOG": "/run/0/.termination/storage-initializer",
                },
                working_dir=None,
                termination_log=FOLDER / ".termination/storage-initializer",
                container="storage-initializer",
                names={models: "/mnt/models", "/run/0/.claims/leeway": "/data/leeway"},
            ),
        ),
        servers=(
            Process(
                name="torchserve/kserve-container",
                command=(
                    *("/venv/bin/python", "-P", "-m", "mar_runtime"),
                    *(f"--model-dir={models}", "--http-port=40001", "--grpc-port=40002"),
                ),
                env={
                    "PYTHONUNBUFFERED": "1",
                    "HTTP_HOST": "127.0.0.1",
                    "GRPC_PORT": "40002",
                    "TMPDIR": "/run/0/scratch",
                    "INFERENCE_SERVICE_NAME": "torchserve",
                    "HOME": "/run/0/scratch",
                    "GRACE_PERIOD": "20",
                    "TERMINATION_LOG": "/run/0/.termination/kserve-container",
                },
                working_dir=None,
                termination_log=FOLDER / ".termination/kserve-container",
                container="kserve-container",
                readiness=Probe({"httpGet": {"path": "/v2/health/ready", "port": 40001}}, period=1, timeout=2),
                liveness=Probe({"httpGet": {"path": "/v2/health/live", "port": 40001}}, timeout=5),
                startup=Probe(
                    {"httpGet": {"path": "/v2/health/live", "port": 40001}}, period=1, timeout=2, failures=600
                ),
                names=names,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///home/me/model.pt", "/home/me"),
        ("file:///home/me/bert", "/home/me/bert"),
        ("pvc://models/v1/a.mar", "/data/models/v1"),
        ("s3://models/bert", "/run/0/kserve-provision-location"),
    ],
)
def test_the_copy_of_a_model_has_the_path_of_the_model_for_people(uri: str, name: str) -> None:
    (server,) = plan(uri=uri).servers

    assert server.named("/run/0/kserve-provision-location/x.py:3: no") == f"{name}/x.py:3: no"


def test_a_mounted_part_of_a_volume_is_a_folder_inside_it() -> None:
    mounts = [{"name": "extra", "mountPath": "/extra/", "subPath": "part"}]
    volumes = [{"name": "extra", "emptyDir": {}}]

    pod = plan(predictor={"volumes": volumes}, volumeMounts=mounts, args=["--port=8080", "/extra/file"])

    assert pod.servers[0].command[-1] == "/run/0/extra/part/file"


def test_a_container_beside_the_server_gets_a_process_but_no_port() -> None:
    helper = {"name": "helper", "command": ["watch"]}

    pod = plan(predictor={"containers": [helper]})

    assert [process.command for process in pod.servers] == [
        (
            *("/venv/bin/python", str(FAKE_RUNTIME), "--http-port=40001"),
            "--model-dir=/run/0/kserve-provision-location",
        ),
        ("watch",),
    ]
    assert pod.ports == {8080: 40001, 8081: 40002}


def test_the_containers_of_a_pod_reach_each_other_on_localhost() -> None:
    transformer = {
        "name": "transformer-container",
        "command": ["transform"],
        "args": ["--http_port=8000", "--grpc_port=8001", "--predictor_host=localhost:8080", "--cache=localhost:6379"],
        "env": [{"name": "MODELS", "value": "http://127.0.0.1:8080/v1/models"}],
    }

    pod = plan(predictor={"containers": [transformer]})

    assert pod.ports == {8080: 40001, 8000: 40002, 8001: 40003, 8081: 40004}
    server, front = pod.servers
    assert (server.readiness, front.readiness) == (
        Probe({"httpGet": {"path": "/v2/health/ready", "port": 40001}}),
        Probe({"tcpSocket": {"port": 40002}}),
    )
    assert front.command == (
        *("transform", "--http_port=40002", "--grpc_port=40003"),
        *("--predictor_host=127.0.0.1:40001", "--cache=localhost:6379"),
    )
    assert front.env["MODELS"] == "http://127.0.0.1:40001/v1/models"


def test_a_server_that_is_told_another_port_gets_a_free_one_for_it() -> None:
    model = {"modelFormat": {"name": "fake"}, "storageUri": "pvc://models", "args": ["--http-port", "5000"]}

    pod = plan(predictor={"model": model})

    assert pod.ports == {5000: 40001, 8081: 40002}
    (server,) = pod.servers
    assert server.command[-2:] == ("--http-port", "40001")
    assert server.readiness == Probe({"httpGet": {"path": "/v2/health/ready", "port": 40001}})


def test_a_server_that_does_not_get_its_port_is_refused() -> None:
    with pytest.raises(UnusableInput, match="first/kserve-container does not get its port"):
        plan(args=["--model-dir=/mnt/models"])


def test_a_volume_that_is_not_there_is_refused() -> None:
    volumes = [{"name": "extra", "secret": {"secretName": "keys"}}]

    with pytest.raises(UnusableInput, match="volume 'extra' is of kind secret"):
        plan(predictor={"volumes": volumes}, volumeMounts=[{"name": "extra", "mountPath": "/extra"}])


# --- objects that stand in the same file -------------------------------------------------------------------

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def a_secret(name: str, **texts: str) -> dict[str, Any]:
    """As users write them."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts}


def planned(*objects: dict[str, Any], uri: str) -> PodPlan:
    """The pod of a service whose account has the secrets among the objects."""
    account = {**ACCOUNT, "secrets": [{"name": item["metadata"]["name"]} for item in objects]}
    installed = parse_documents(read_runtimes(None), "default").runtimes
    given = parsed(service(uri=uri), runtime(), account, *objects)
    rendered, invalid = render_services(given, installed, OperatorConfig())
    for error in invalid:
        raise error
    (only,) = rendered
    return plan_pod(only.children[0], machine(objects=only.objects))


def test_the_keys_of_a_secret_in_the_file_reach_the_initializer() -> None:
    secret = a_secret("s3", AWS_ACCESS_KEY_ID="the-id", AWS_SECRET_ACCESS_KEY="the-key", S3_ENDPOINT="minio:9000")

    (initializer,) = planned(secret, uri="s3://b/m").init

    given = {name: text for name, text in initializer.env.items() if name.startswith(("AWS", "S3"))}
    assert given == {
        "AWS_ACCESS_KEY_ID": "the-id",
        "AWS_SECRET_ACCESS_KEY": "the-key",
        "S3_ENDPOINT": "minio:9000",
        "AWS_ENDPOINT_URL": "https://minio:9000",
    }


def test_a_secret_that_is_mounted_becomes_files() -> None:
    secret = a_secret("google", **{"gcloud-application-credentials.json": "{}"})

    pod = planned(secret, uri="gs://b/m")

    place = FOLDER / "user-gcp-sa" / "gcloud-application-credentials.json"
    assert pod.files == {place: b"{}"}
    assert pod.init[0].env["GOOGLE_APPLICATION_CREDENTIALS"] == str(place)


def test_certificates_of_a_config_map_become_files() -> None:
    annotations = {"serving.kserve.io/s3-cabundle-configmap": "minios"}
    secret = a_secret("s3", AWS_ACCESS_KEY_ID="the-id", AWS_SECRET_ACCESS_KEY="the-key")
    secret["metadata"]["annotations"] = annotations
    certificates = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "minios"}, "data": {"ca.crt": "PEM"}}
    account = {**ACCOUNT, "secrets": [{"name": "s3"}]}
    given = parsed(service(uri="s3://b/m"), runtime(), account, secret, certificates)
    (rendered,), _ = render_services(given, (), OperatorConfig())

    pod = plan_pod(rendered.children[0], machine(objects=rendered.objects))

    assert pod.files == {FOLDER / "cabundle-cert" / "ca.crt": b"PEM"}
    assert pod.init[0].env["CA_BUNDLE_VOLUME_MOUNT_POINT"] == str(FOLDER / "cabundle-cert")


def test_a_secret_of_another_namespace_is_not_the_services() -> None:
    secret = a_secret("s3", AWS_ACCESS_KEY_ID="the-id", AWS_SECRET_ACCESS_KEY="the-key")
    secret["metadata"]["namespace"] = "elsewhere"

    with pytest.raises(InvalidSpec, match="InferenceService first: secret s3, which service account default"):
        planned(secret, uri="s3://b/m")


def test_without_an_account_in_the_file_the_initializer_uses_this_machines_credentials() -> None:
    (initializer,) = plan(uri="s3://b/m").init

    assert not [name for name in initializer.env if name.startswith("AWS")]


def test_a_claim_that_the_server_mounts_is_the_folder_itself() -> None:
    body = service(uri="pvc://models/bert")
    body["metadata"]["annotations"] = {"storage.isvc-operator.io/pvc-mode": "direct"}

    pod = plan_pod(deployment(parsed(body, runtime())), machine())

    assert pod.init == ()
    assert pod.servers[0].command[-1] == "--model-dir=/run/0/.claims/models/bert"
    assert pod.links == {FOLDER / ".claims/models": Path("/data/models")}


@pytest.mark.parametrize("uri", ["oci://registry.example/bert:1", "oci+native://registry.example/bert:1"])
def test_a_model_in_an_image_is_refused_with_what_to_do(uri: str) -> None:
    with pytest.raises(UnusableInput) as raised:
        plan(uri=uri)

    assert str(raised.value) == (
        "the model is in the image registry.example/bert:1, which this machine does not run; copy its folder /models "
        "out of it (docker create --name model registry.example/bert:1 sh; docker cp model:/models .) and write its "
        "path as the storageUri"
    )


def test_a_sidecar_among_the_init_containers_is_refused() -> None:
    sidecar = {"name": "proxy", "image": "p", "command": ["proxy"], "restartPolicy": "Always"}

    with pytest.raises(UnusableInput, match=r"^init container 'proxy' keeps running beside the server"):
        plan(predictor={"initContainers": [sidecar]})
