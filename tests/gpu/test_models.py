"""Models on a real GPU, by the runtime without Java. Run by hand on a machine that has one: `pytest tests/gpu`."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration.mar_runtime.serving import configure
from tests.support import torch_models
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Answer, Request, Runtime

MODEL_FAILED, CONFIGURATION_ERROR = 4, 3
PICTURES = torch.rand(2, 1, 8, 8)
HANDLER = b"""
import os
import torch

class Handler:
    def initialize(self, context):
        gpu = context.system_properties["gpu_id"]
        self.device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
        self.words = torch.nn.Embedding(10, 4, device=self.device)

    def handle(self, rows, context):
        return [getattr(self, row["do"])() for row in rows]

    def tell(self):
        return [os.getpid(), str(self.words(torch.tensor([1], device=self.device)).device)]

    def fill(self):
        torch.empty(2**44, dtype=torch.uint8, device=self.device)

    def exceed(self):
        return self.words(torch.tensor([11], device=self.device)).sum().item()
"""
CLASSIFIER = b"""
from torchvision.models.resnet import BasicBlock, ResNet

class Net(ResNet):
    def __init__(self):
        super().__init__(BasicBlock, [1, 1, 1, 1], num_classes=10)
"""


class Words(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids).sum(1)


class Filling(torch.nn.Module):
    """As many GiB as it is told."""

    def forward(self, gib: torch.Tensor) -> torch.Tensor:
        held = torch.empty([int(gib.max().item()) * 1024 * 1024 * 1024], device=gib.device, dtype=torch.uint8)
        return gib.float() + held[:0].float().sum()


def infer(runtime: Runtime, name: str, datatype: str, data: np.ndarray) -> Answer:
    tensor = {"name": name, "datatype": datatype, "shape": data.shape, "data": data.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    return runtime.send(Request("POST", "/v2/models/model/infer", body))


# --- bare models -----------------------------------------------------------------------------------------------------


def traced(folder: Path) -> None:
    torch_models.save_traced(folder / "model.pt", torch_models.Convolutions().eval(), PICTURES)


def traced_on_a_gpu(folder: Path) -> None:
    torch_models.save_traced(folder / "model.pt", torch_models.Convolutions().eval().cuda(), PICTURES.cuda())


def exported(folder: Path) -> None:
    torch_models.save_exported(folder / "model.pt2", torch_models.Convolutions().eval(), PICTURES)


def exported_on_a_gpu(folder: Path) -> None:
    torch_models.save_exported(folder / "model.pt2", torch_models.Convolutions().eval().cuda(), PICTURES.cuda())


def declare(folder: Path) -> None:
    (folder / "model-config.yaml").write_text("inputs: [{name: image, datatype: FP32, shape: [-1, 1, 8, 8]}]")


def compiled_for_the_gpu(folder: Path) -> None:
    torch_models.save_compiled(folder / "model.pt2", torch_models.Convolutions().eval().cuda(), PICTURES.cuda())
    declare(folder)


def compiled_for_the_cpu(folder: Path) -> None:
    torch_models.save_compiled(folder / "model.pt2", torch_models.Convolutions().eval(), PICTURES)
    declare(folder)


def onnx(folder: Path) -> None:
    torch_models.save_onnx(folder / "model.onnx", torch_models.Convolutions().eval(), PICTURES)


@pytest.mark.parametrize(
    "save",
    [traced, traced_on_a_gpu, exported, exported_on_a_gpu, compiled_for_the_gpu, compiled_for_the_cpu, onnx],
)
def test_a_model_file_gives_what_it_gives_on_the_cpu(save: Callable[[Path], None], tmp_path: Path) -> None:
    """onnxruntime from PyPI has no GPU, and a package that was compiled for the CPU stays there."""
    save(tmp_path)
    with Runtime("mar", tmp_path) as runtime:
        answer = infer(runtime.wait_ready(["model"]), "image", "FP32", PICTURES.numpy())

        wanted = torch_models.Convolutions().eval()(PICTURES).detach().numpy()
        found = np.reshape(answer.document["outputs"][0]["data"], wanted.shape)
        assert np.abs(found - wanted).max() < 1e-3


@pytest.mark.parametrize("save", [traced, traced_on_a_gpu, exported])
def test_a_server_that_sees_no_gpu_uses_the_cpu(save: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path)
    with Runtime("mar", tmp_path, CUDA_VISIBLE_DEVICES="") as runtime:
        assert infer(runtime.wait_ready(["model"]), "image", "FP32", PICTURES.numpy()).status == 200


def test_an_index_out_of_range_ends_the_server_of_a_model_file(tmp_path: Path) -> None:
    torch_models.save_scripted(tmp_path / "model.pt", Words())
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: ids, datatype: INT64, shape: [-1, 3]}]")
    with Runtime("mar", tmp_path) as runtime:
        answer = infer(runtime.wait_ready(["model"]), "ids", "INT64", np.full((1, 3), 11))

        assert (answer.status, runtime.wait_exit()) == (500, MODEL_FAILED)
        assert "device-side assert triggered. A number in the request may be out of" in answer.document["error"]
        assert "Model model: The model failed: CUDA error: device-side assert" in runtime.termination_message


def test_memory_that_ran_out_is_told_and_the_next_request_is_answered(tmp_path: Path) -> None:
    torch_models.save_scripted(tmp_path / "model.pt", Filling())
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: gib, datatype: INT64, shape: [-1]}]")
    with Runtime("mar", tmp_path) as runtime:
        runtime.wait_ready(["model"])
        answers = [infer(runtime, "gib", "INT64", np.array([size])) for size in (1, 20_000, 1)]

        assert [answer.status for answer in answers] == [200, 507, 200]
        assert answers[1].document["error"].startswith("Out of memory: CUDA out of memory. Tried to allocate 20000.00")


# --- archives --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("archives")
    yaml = {"plain": "", "cpu": "deviceType: cpu", "named": "{deviceType: gpu, deviceIds: [0]}"}
    table = {name: {"1.0": {"marName": f"{name}.mar", "minWorkers": 2}} for name in yaml}
    for name, config in yaml.items():
        described = manifest(modelName=name, handler="h.py", configFile="c.yaml")
        write_mar(folder / f"model-store/{name}.mar", described, {"h.py": HANDLER, "c.yaml": config.encode()})
    configure(folder, f"models={json.dumps(table)}")
    with Runtime("mar", folder) as running:
        yield running.wait_ready(yaml)


def do(runtime: Runtime, model: str, what: str) -> Answer:
    return runtime.predict(model, {"instances": [{"do": what}]})


@pytest.mark.parametrize(("model", "device"), [("plain", "cuda:0"), ("cpu", "cpu"), ("named", "cuda:0")])
def test_an_archive_has_the_device_that_it_asks_for(runtime: Runtime, model: str, device: str) -> None:
    assert do(runtime, model, "tell").document["predictions"][0][1] == device


def test_a_handler_that_fills_the_gpu_is_told_and_goes_on(runtime: Runtime) -> None:
    assert [do(runtime, "plain", what).status for what in ("fill", "tell")] == [507, 200]


def test_a_worker_whose_gpu_is_lost_is_replaced(runtime: Runtime) -> None:
    before = {child.pid for child in runtime.children()}

    failed = [do(runtime, "named", "exceed") for _ in range(2)]
    told = [do(runtime, "named", "tell").document["predictions"][0][0] for _ in range(4)]

    assert [answer.status for answer in failed] == [500, 500]
    assert "device-side assert triggered. A number in the request" in failed[0].document["error"]
    assert not before & set(told)


def test_a_gpu_that_is_not_there_ends_the_server(tmp_path: Path) -> None:
    described = manifest(modelName="m", handler="h.py", configFile="c.yaml")
    write_mar(tmp_path / "model-store/m.mar", described, {"h.py": HANDLER, "c.yaml": b"{deviceIds: [9]}"})
    configure(tmp_path, 'models={"m": {"1.0": {"marName": "m.mar"}}}')
    with Runtime("mar", tmp_path) as runtime:
        assert runtime.wait_exit() == CONFIGURATION_ERROR
        assert "deviceIds of m.mar is [9]; write a list of numbers, the GPUs here are 0" in runtime.termination_message


@pytest.mark.parametrize("config", [b"{}", b"pt2: {compile: {enable: true}}"], ids=["eager", "compiled"])
def test_torchserves_own_handler_classifies_an_image(config: bytes, tmp_path: Path) -> None:
    import torchvision
    from PIL import Image

    weights, image = io.BytesIO(), io.BytesIO()
    torch.save(torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], 10).state_dict(), weights)
    Image.new("RGB", (64, 64), "red").save(image, "JPEG")
    files = {"model.py": CLASSIFIER, "net.pt": weights.getvalue(), "c.yaml": config}
    described = manifest(
        modelName="m", handler="image_classifier", modelFile="model.py", serializedFile="net.pt", configFile="c.yaml"
    )
    write_mar(tmp_path / "model-store/m.mar", described, files)
    configure(tmp_path, 'models={"m": {"1.0": {"marName": "m.mar", "minWorkers": 1}}}')
    with Runtime("mar", tmp_path) as runtime:
        runtime.wait_ready(["m"])
        answer = runtime.predict("m", {"instances": [{"data": base64.b64encode(image.getvalue()).decode()}]})

        assert len(answer.document["predictions"][0]) == 5
