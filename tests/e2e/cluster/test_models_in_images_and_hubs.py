"""A model in an image that this suite builds, and a Hugging Face layout from a hub on this machine."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from hack.release.version import current_version
from tests.support.cluster import HTTP, RealCluster, curl
from tests.support.credentials import a_secret, an_account
from tests.support.forwarding import address_seen_from, forwarded, node_address
from tests.support.namespace import Namespace
from tests.support.object_stores import hub as hubs
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
READY_WITHIN = 120.0  # seconds
IMAGE = "adding-one"
LAYOUT = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": random.Random(0).randbytes(3 << 20),
    "tokenizer.json": b"{}",
}


def image(name: str) -> str:
    """The name of an image of this checkout, as in the Makefile."""
    return f"{os.environ.get('REGISTRY', 'localhost/isvc-operator')}/{name}:{os.environ.get('TAG', current_version())}"


def serve(namespace: Namespace, name: str, predictor: dict[str, Any]) -> None:
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}}
    namespace.apply({**service, "spec": {"predictor": predictor}})
    namespace.wait_for_condition("Ready", "True", service=name, within=READY_WITHIN)


# --- an image --------------------------------------------------------------------------------------------


@pytest.fixture
def model_image(tmp_path: Path) -> str:
    """An image with a model that adds one, and with the entry point of another program."""
    context = tmp_path / "image"
    (context / "models").mkdir(parents=True)
    (context / "models/model.onnx").write_bytes(adding_one())
    (context / "Dockerfile").write_text(f"FROM {image('storage-initializer')}\nCOPY models /models\n")
    builder = next(name for name in ("docker", "podman", "buildah") if works(name))
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
    subprocess.run([builder, "build", "--tag", image(IMAGE), str(context)], env=environment, check=True)
    subprocess.run(["bash", str(ROOT / "tests/cluster/bring"), IMAGE], check=True)
    return image(IMAGE)


def adding_one() -> bytes:
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "adding-one", [x], [y], [one])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def works(builder: str) -> bool:
    return shutil.which(builder) is not None and not subprocess.call([builder, "info"], stdout=subprocess.DEVNULL)


def test_a_model_in_an_image_is_served_beside_it(namespace: Namespace, model_image: str) -> None:
    """In a namespace that forbids pods which are not restricted, and without a copy of the model."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    model = {"modelFormat": {"name": "onnx"}, "storageUri": f"oci://{model_image}", "resources": resources}
    serve(namespace, "in-image", {"model": model})

    body = json.dumps({"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": [0, 1, 41]}]})
    host = f"Host: in-image.{namespace.name}.example.com"
    ask = ("-X", "POST", "-H", host, f"{HTTP}/v2/models/in-image/infer", "--data-binary", body)
    answer = eventually(lambda: found if (found := curl(*ask)).status == 200 else None, "the ingress has the route")

    assert answer.json["outputs"][0]["data"] == [1, 2, 42]
    link = namespace.kubectl(
        "exec", "deployment/in-image-predictor", "--container=kserve-container", "--", "readlink", "/mnt/models"
    )
    assert link.startswith("/proc/")
    namespace.kubectl("delete", "isvc", "in-image", "--wait=false")


# --- a hub -----------------------------------------------------------------------------------------------


@pytest.fixture
def hub(cluster: RealCluster, namespace: Namespace) -> Iterator[hubs.Hub]:
    """A hub with the gated model org/bert; a ClusterStorageContainer tells all downloads from hubs about it."""
    name, address = f"{namespace.name}-hub", address_seen_from(node_address(cluster))
    with (
        hubs.running() as hub,
        forwarded(address, int(hub.store.url.rpartition(":")[2])) as store_port,
        forwarded(address, int(hub.url.rpartition(":")[2])) as port,
    ):
        hub.store_url = f"http://{address}:{store_port}"
        hub.put("org/bert", LAYOUT, gated=True)
        container = {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ClusterStorageContainer",
            "metadata": {"name": name},
            "spec": {
                "container": {
                    "name": "storage-initializer",
                    "env": [{"name": "HF_ENDPOINT", "value": f"http://{address}:{port}"}],
                },
                "supportedUriFormats": [{"prefix": "hf://"}],
            },
        }
        cluster.kubectl("apply", "--filename=-", stdin=json.dumps(container))
        yield hub
        cluster.kubectl("delete", "clusterstoragecontainer", name)


def test_a_hugging_face_layout_is_there_for_any_server(namespace: Namespace, hub: hubs.Hub) -> None:
    """Here one of the user's own, which gives out the files that it finds."""
    for item in (an_account("hub", name="reader"), a_secret("hub", {"HF_TOKEN": hubs.TOKEN})):
        namespace.apply({**item, "metadata": {**item["metadata"], "namespace": namespace.name}})
    container = {
        "name": "kserve-container",
        "image": image("storage-initializer"),
        "command": ["python", "-m", "http.server", "8080", "--directory", "/mnt/models"],
        "env": [{"name": "STORAGE_URI", "value": "hf://org/bert:main"}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}},
    }
    serve(namespace, "from-hub", {"serviceAccountName": "reader", "containers": [container]})

    host = f"Host: from-hub.{namespace.name}.example.com"
    ask = ("-H", host, f"{HTTP}/config.json")
    answer = eventually(lambda: found if (found := curl(*ask)).status == 200 else None, "the ingress has the route")

    assert answer.text == LAYOUT["config.json"].decode()
    log = namespace.kubectl("logs", "deployment/from-hub-predictor", "--container=storage-initializer")
    assert "with the token in HF_TOKEN" in log
    assert "done: 3 files, 3.0 MiB" in log
    assert hubs.TOKEN not in log
    namespace.kubectl("delete", "isvc", "from-hub", "--wait=false")
