"""Two archives in one store, by the field names of old, served by TorchServe; then one line of YAML is changed.

Both runtimes are asked the same, by every protocol. What they say is kept, and the tests compare it.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

from tests.support.cluster import HTTP, Answer, RealCluster, curl, rounded
from tests.support.forwarding import port_forwarded
from tests.support.namespace import Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

FILE = Path(__file__).parent / "both_runtimes.yaml"
SERVICE, PREDICTOR = "images", "images-predictor"
RUNTIMES = ("kserve-torchserve", "isvc-mar")
SIZES = "batch_size_instances"  # the histogram of real batch sizes
BATCHER, CONFIG = 8, 2  # maxBatchSize in the YAML, batchSize in config.properties
CALLERS, REQUESTS_EACH = 32, 20

Samples = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """What one runtime said."""

    digits: Answer
    photo: Answer
    infer: Answer
    infer_base64: Answer
    metadata: Answer
    under_load: list[tuple[int, Answer]]  # with the digit that was asked for
    metrics: str
    grpc_digits: list[int]
    bad: Answer


@pytest.fixture(scope="module")
def samples(images: Path) -> Samples:
    found: Samples = json.loads((images / "samples.json").read_text())
    return found


@pytest.fixture(scope="module")
def said(cluster: RealCluster, namespace: Namespace, images: Path, samples: Samples) -> Iterator[dict[str, Said]]:
    """The service is applied with the first runtime, then with the other: a rolling update, under one name."""
    with Volume(namespace, "images").filled_from(images / "image_classifier"):
        yield {runtime: serve(cluster, namespace, runtime, samples) for runtime in RUNTIMES}


def serve(cluster: RealCluster, namespace: Namespace, runtime: str, samples: Samples) -> Said:
    text = FILE.read_text()
    namespace.kubectl("apply", "--filename=-", stdin=text.replace(f": {RUNTIMES[0]}\n", f": {runtime}\n"))

    def served() -> bool:
        service = namespace.find("inferenceservice", SERVICE) or {}
        status = service.get("status", {})
        newest = status.get("observedGeneration") == service["metadata"]["generation"]
        named = status.get("clusterServingRuntimeName") == runtime
        return newest and named and namespace.condition("Ready", SERVICE).get("status") == "True"

    eventually(served, f"the service is Ready on {runtime}", within=180, otherwise=lambda: told(namespace))
    eventually(lambda: pods(namespace) == 1, "the pod of the other runtime is gone", within=180)
    caller = Caller(f"{SERVICE}.{namespace.name}.example.com", samples)
    eventually(lambda: caller.get("/v2/health/ready").status == 200, "the ingress has the route")
    with port_forwarded(cluster, namespace.name, f"service/{PREDICTOR}", 8081) as address:
        return caller.ask_everything(address)


@dataclass(frozen=True)
class Caller:
    """Somebody outside of the cluster with a Host header, as in the story."""

    host: str
    samples: Samples

    def ask_everything(self, grpc_address: str) -> Said:
        digits = self.samples["mnist"]
        pixels = [value for digit in digits for value in digit["pixels"]]
        tensor = {"name": "data", "datatype": "FP32", "shape": [len(digits), 1, 28, 28], "data": pixels}
        texts = {"name": "data", "datatype": "BYTES", "shape": [len(digits)], "data": [d["image"] for d in digits]}
        return Said(
            digits=self.predict("mnist", *(digit["image"] for digit in digits)),
            photo=self.predict("densenet161", self.samples["densenet161"]["image"]),
            infer=self.post("/v2/models/mnist/infer", {"id": "one", "inputs": [tensor]}),
            infer_base64=self.post("/v2/models/mnist/infer", {"inputs": [texts]}),
            metadata=self.get("/v2/models/mnist"),
            under_load=self.load(),
            metrics=self.get("/metrics").text,
            grpc_digits=infer_by_grpc(grpc_address, [len(digits), 1, 28, 28], pixels),
            bad=self.predict("mnist", digits[0]["image"], "this is not an image"),
        )

    def load(self) -> list[tuple[int, Answer]]:
        """Many callers at a time, each with one digit after another on a connection of its own."""
        with ThreadPoolExecutor(CALLERS) as callers:
            return [answer for answers in callers.map(self.one_of_many, range(CALLERS)) for answer in answers]

    def one_of_many(self, number: int) -> list[tuple[int, Answer]]:
        digits = itertools.islice(itertools.cycle(self.samples["mnist"]), number, number + REQUESTS_EACH)
        answers = []
        with contextlib.closing(http.client.HTTPConnection(urlsplit(HTTP).netloc, timeout=60)) as connection:
            for digit in digits:
                body = json.dumps({"instances": [{"data": digit["image"]}]})
                connection.request("POST", "/v1/models/mnist:predict", body, {"Host": self.host})
                response = connection.getresponse()
                answers.append((digit["digit"], Answer(response.status, response.read().decode())))
        return answers

    def predict(self, model: str, *images: str) -> Answer:
        return self.post(f"/v1/models/{model}:predict", {"instances": [{"data": image} for image in images]})

    def post(self, path: str, body: Any) -> Answer:
        return curl("-X", "POST", "-H", f"Host: {self.host}", f"{HTTP}{path}", "--data-binary", json.dumps(body))

    def get(self, path: str) -> Answer:
        return curl("-H", f"Host: {self.host}", f"{HTTP}{path}")


def infer_by_grpc(address: str, shape: list[int], pixels: list[float]) -> list[int]:
    tensor = pb.ModelInferRequest.InferInputTensor(
        name="data", datatype="FP32", shape=shape, contents=pb.InferTensorContents(fp32_contents=pixels)
    )
    with grpc.insecure_channel(address) as channel:
        request = pb.ModelInferRequest(model_name="mnist", inputs=[tensor])
        response = GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    (output,) = response.outputs
    if response.raw_output_contents:
        (raw,) = response.raw_output_contents
        return [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    return list(output.contents.int64_contents)


def pods(namespace: Namespace) -> int:
    selector = f"--selector=app=isvc.{PREDICTOR}"
    return len(json.loads(namespace.kubectl("get", "pods", selector, "--output=json"))["items"])


def told(namespace: Namespace) -> str:
    return namespace.kubectl("describe", "inferenceservice", SERVICE)


# --- each of the two -----------------------------------------------------------------------------------

both = pytest.mark.parametrize("runtime", RUNTIMES)


@both
def test_base64_images_get_their_digits_in_order(said: dict[str, Said], samples: Samples, runtime: str) -> None:
    answer = said[runtime].digits
    assert (answer.status, answer.json) == (200, {"predictions": [digit["digit"] for digit in samples["mnist"]]})


@both
def test_an_image_gets_the_names_of_its_classes(said: dict[str, Said], samples: Samples, runtime: str) -> None:
    answer = said[runtime].photo
    (found,) = answer.json["predictions"]
    assert (answer.status, found) == (200, pytest.approx(samples["densenet161"]["answer"], abs=1e-5))


@both
def test_v2_gives_the_same_digits_by_rest_and_by_grpc(said: dict[str, Said], samples: Samples, runtime: str) -> None:
    digits = [digit["digit"] for digit in samples["mnist"]]
    output = {"name": "predictions", "datatype": "INT64", "shape": [len(digits)], "data": digits}

    assert said[runtime].infer.json["id"] == "one"
    assert said[runtime].infer.json["outputs"] == [output]
    assert said[runtime].infer_base64.json["outputs"] == [output]
    assert said[runtime].grpc_digits == digits


@both
def test_many_callers_at_a_time_each_get_their_own_digit(said: dict[str, Said], runtime: str) -> None:
    answers = said[runtime].under_load

    assert [
        answer for digit, answer in answers if (answer.status, answer.json) != (200, {"predictions": [digit]})
    ] == []


@both
def test_batches_grow_to_the_batchers_size_over_that_of_config_properties(said: dict[str, Said], runtime: str) -> None:
    metrics = said[runtime].metrics

    assert batches(metrics, at_most=BATCHER) == batches(metrics)
    assert batches(metrics, at_most=CONFIG) < batches(metrics)


def batches(metrics: str, at_most: float | None = None) -> int:
    """How many batches the model `mnist` got: all, or those of at most so many instances."""
    limit = "+Inf" if at_most is None else str(float(at_most))
    pattern = rf'^{SIZES}_bucket\{{(?=[^}}]*model_name="mnist")(?=[^}}]*le="{re.escape(limit)}")[^}}]*\}} (\S+)'
    found = re.search(pattern, metrics, re.MULTILINE)
    assert found, f"no {SIZES} with le={limit} in:\n{metrics}"
    return int(float(found[1]))


# --- the two beside each other -------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["digits", "photo", "infer", "infer_base64", "metadata", "bad"])
def test_one_line_of_yaml_changes_the_runtime_and_no_answer(said: dict[str, Said], asked: str) -> None:
    one, other = (getattr(said[runtime], asked) for runtime in RUNTIMES)
    assert (one.status, without_ids(one)) == (other.status, without_ids(other))


def without_ids(answer: Answer) -> Any:
    """The document but for the ids that the server makes up where nobody sent one."""
    return rounded({name: value for name, value in answer.json.items() if name not in ("id", "request_id")})
