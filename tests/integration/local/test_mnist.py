"""The other sample on this machine: an archive and models without one, side by side on the server without Java."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

from tests.support.build_cache import sample
from tests.support.isvc_process import Sandbox, new_sandbox, read_until, stop

SAMPLE = Path(__file__).parents[3] / "examples/mnist"
BARE = ("mnist-torchscript", "mnist-onnx")
DIGIT = 7  # what the sample shows

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mnist")
    shutil.copytree(sample("mnist"), folder / "volume")
    services = ("mar", "torchscript", "onnx")
    texts = [(SAMPLE / f"inferenceservice-{name}.yaml").read_text() for name in services]
    (folder / "services.yaml").write_text("---\n".join(texts))
    shutil.copy(SAMPLE / "sample.json", folder)
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[tuple[Sandbox, str]]:
    """All three services, and what was announced."""
    with new_sandbox(folder) as sandbox:
        with sandbox.running(folder / "services.yaml", "--pvc", f"mnist={folder / 'volume'}") as process:
            yield sandbox, read_until(process.stdout, "Ctrl-C stops it.")
            stop(process)
        assert list(sandbox.temporary.iterdir()) == []


def ask(sandbox: Sandbox, service: str, path: str, file: str) -> Any:
    body = json.loads((SAMPLE / file).read_text())
    status, answer = sandbox.ask(f"{service}.default.example.com", path, body)
    assert status == 200, answer
    return answer


def digit(scores: list[float]) -> int:
    return scores.index(max(scores))


@pytest.mark.parametrize("service", BARE)
def test_each_service_is_served_at_its_own_printed_address_for_grpc(running: tuple[Sandbox, str], service: str) -> None:
    sandbox, announced = running
    _, metadata = sandbox.ask(f"{service}.default.example.com", f"/v2/models/{service}")
    (instance,) = json.loads((SAMPLE / "sample-tensor.json").read_text())["instances"]
    scores = infer(addresses(announced)[service], service, metadata["inputs"][0]["name"], instance)
    assert digit(scores) == DIGIT


def test_each_printed_command_gets_an_answer(running: tuple[Sandbox, str]) -> None:
    commands = re.findall(r"^  (curl .*)$", running[1], re.MULTILINE)

    for command in commands:
        asked = ["bash", "-c", f"{command} --fail-with-body -sS"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert len(commands) == 3


def addresses(announced: str) -> Mapping[str, str]:
    """Service → address for gRPC."""
    return dict(re.findall(r"^(\S+) is served$.*?^  gRPC: (\S+)$", announced, re.MULTILINE | re.DOTALL))


def infer(address: str, model: str, input_name: str, image: list[list[list[float]]]) -> list[float]:
    pixels = [pixel for channel in image for row in channel for pixel in row]
    tensor = pb.ModelInferRequest.InferInputTensor(
        name=input_name, datatype="FP32", shape=[1, 1, 28, 28], contents=pb.InferTensorContents(fp32_contents=pixels)
    )
    with grpc.insecure_channel(address) as channel:
        request = pb.ModelInferRequest(model_name=model, inputs=[tensor])
        (output,) = GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60).outputs
    return list(output.contents.fp32_contents)
