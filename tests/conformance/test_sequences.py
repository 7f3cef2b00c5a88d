"""Handlers that keep state between the requests of a sequence: TorchServe's `sequenceBatching`, on all three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from data_plane.protocol.torchserve import inference_apis_pb2 as ts
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.server.grpc.torchserve import SERVICE
from tests.conformance.archives import HANDLERS
from tests.conformance.behaviours import EVERY_KIND
from tests.conformance.case import v1, v2
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, Answer, Request, Runtime

pytestmark = pytest.mark.timeout(600)
ID, START = "ts_request_sequence_id", "ts_request_sequence_start"
COUNT = 20
SEQUENCES = "sequenceBatching: true\nmaxBatchDelay: 10\n"
MODELS = {
    # Of more sequences than a batch has room for, a worker of TorchServe's leaves some waiting until others have ended.
    "sums": "minWorkers: 2\nmaxWorkers: 2\nbatchSize: 16\nmaxNumSequence: 16\nsequenceMaxIdleMSec: 60000\n",
    "narrow": "minWorkers: 1\nmaxWorkers: 1\nbatchSize: 2\nmaxNumSequence: 2\nsequenceMaxIdleMSec: 60000\n",
    "brief": "minWorkers: 1\nmaxWorkers: 1\nmaxNumSequence: 1\nsequenceMaxIdleMSec: 500\n",
}
# Its workers die; only isvc-mar has it. The adapter's server ends with a worker's death, so "sums" can die there, last.
MORTAL = "minWorkers: 2\nmaxWorkers: 2\nbatchSize: 4\nsequenceMaxIdleMSec: 60000\nmaxNumSequence: 16\n"
every_kind = pytest.mark.parametrize("runtime", EVERY_KIND, indirect=True)
each_of_ours = pytest.mark.parametrize("runtime", OURS, indirect=True)
isvc_mar = pytest.mark.parametrize("runtime", ["mar"], indirect=True)
the_adapter = pytest.mark.parametrize("runtime", ["adapter"], indirect=True)


def model_dir(folder: Path, models: dict[str, str]) -> Path:
    for name, yaml in models.items():
        files = {"stateful.py": (HANDLERS / "stateful.py").read_bytes(), "c.yaml": (SEQUENCES + yaml).encode()}
        described = manifest(modelName=name, handler="stateful.py", configFile="c.yaml")
        write_mar(folder / "model-store" / f"{name}.mar", described, files)
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text("load_models=all\n")
    return folder


@pytest.fixture(scope="module")
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    models = {**MODELS, **({"mortal": MORTAL} if request.param == "mar" else {})}
    with Runtime(request.param, model_dir(tmp_path_factory.mktemp("sequences"), models), has_torch=False) as running:
        yield running.wait_ready(models)


def ask(runtime: Runtime, model: str, body: str, sequence: str = "", **headers: str) -> Answer:
    told = ((ID, sequence),) if sequence else ()
    return runtime.send(Request("POST", f"/predictions/{model}", body.encode(), (*told, *headers.items())))


def told(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return answer.document


@every_kind
def test_requests_of_a_sequence_are_added_up_in_order(runtime: Runtime) -> None:
    """Each in one worker; which one, is chance with TorchServe: any of its workers takes all that wait."""
    sequences = [f"s{number}" for number in range(6)]

    def client(sequence: str) -> list[Any]:
        return [told(ask(runtime, "sums", "1", sequence)) for _ in range(COUNT)]

    with ThreadPoolExecutor(len(sequences)) as clients:
        answers = list(clients.map(client, sequences))

    assert [[one["sum"] for one in of_sequence] for of_sequence in answers] == [list(range(1, COUNT + 1))] * 6
    workers = [{one["worker"] for one in of_sequence} for of_sequence in answers]
    assert [len(of_sequence) for of_sequence in workers] == [1] * 6
    assert all(len(set(one["batch"])) == len(one["batch"]) for of_sequence in answers for one in of_sequence)


@every_kind
def test_a_request_without_an_id_begins_a_sequence_of_its_own(runtime: Runtime) -> None:
    first, second = (told(ask(runtime, "sums", "headers")) for _ in range(2))

    assert (first[START], second[START]) == ("true", "true")
    assert first[ID].startswith("ts-seq-")
    assert second[ID].startswith("ts-seq-")
    assert first[ID] != second[ID]


@every_kind
def test_a_handler_sees_the_headers_of_sequences(runtime: Runtime) -> None:
    headers = {START: "true", "ts_request_sequence_end": "no"}

    assert told(ask(runtime, "sums", "headers", "seen", **headers)) == {ID: "seen", **headers}


@every_kind
def test_more_than_torchserve_takes_is_refused_with_its_status(runtime: Runtime, tmp_path: Path) -> None:
    release = tmp_path / "release"
    with ThreadPoolExecutor(4) as clients:
        running = clients.submit(ask, runtime, "narrow", f"wait {release}", "a")
        runtime.wait_until(release.with_suffix(".reached").exists, "the handler has the request")
        others = [clients.submit(ask, runtime, "narrow", "1", "a") for _ in range(3)]
        runtime.wait_until(lambda: sum(one.done() for one in others) == 2, "one waits, as maxSequenceJobQueueSize says")
        release.touch()
    statuses = sorted(one.result().status for one in others)

    assert (running.result().status, statuses) == (200, [200, 503, 503])
    assert [ask(runtime, "narrow", "1", sequence).status for sequence in "bc"] == [200, 503]  # maxNumSequence is 2


@every_kind
def test_a_place_is_free_again_when_a_sequence_has_been_idle(runtime: Runtime) -> None:
    assert ask(runtime, "brief", "1", "a").status == 200  # it has the only one

    runtime.wait_until(lambda: ask(runtime, "brief", "1", "b").status == 200, "a's place is free")


@each_of_ours
def test_one_sequence_may_be_asked_by_every_protocol(runtime: Runtime) -> None:
    headers = {ID: "protocols"}
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}
    by_v1 = Request("POST", v1("sums", b"").path, b'{"instances": [1]}', tuple(headers.items()))
    by_v2 = Request("POST", v2("sums", b"").path, json.dumps({"inputs": [tensor]}).encode(), tuple(headers.items()))
    message = pb.ModelInferRequest(model_name="sums")
    message.inputs.add(name="x", datatype="INT64", shape=[1]).contents.int64_contents.append(1)

    sums = [
        told(ask(runtime, "sums", "1", "protocols"))["sum"],
        *told(runtime.send(by_v1))["predictions"],
        *told(runtime.send(by_v2))["outputs"][0]["data"],
        *infer(runtime, message, headers).outputs[0].contents.int64_contents,
        *by_torchserves_grpc(runtime, "protocols"),
    ]

    assert sums == [1, 2, 3, 4, 5, 6]


def by_torchserves_grpc(runtime: Runtime, sequence: str) -> list[int]:
    """By each method that takes a sequence's id, once."""
    asked = ts.PredictionsRequest(model_name="sums", input={"data": b"1"}, sequence_id=sequence)
    of_ts = (ts.PredictionsRequest.SerializeToString, ts.PredictionResponse.FromString)
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        one = channel.unary_unary(f"/{SERVICE}/Predictions", *of_ts)(asked)
        (streamed,) = channel.stream_stream(f"/{SERVICE}/StreamPredictions2", *of_ts)(iter([asked]))
    assert streamed.sequence_id == sequence
    return [json.loads(answer.prediction)["sum"] for answer in (one, streamed)]


def infer(runtime: Runtime, message: pb.ModelInferRequest, headers: dict[str, str]) -> pb.ModelInferResponse:
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        method = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            pb.ModelInferRequest.SerializeToString,
            pb.ModelInferResponse.FromString,
        )
        return method(message, metadata=tuple(headers.items()))


@isvc_mar
def test_when_a_worker_dies_its_sequences_are_told_and_the_others_go_on(runtime: Runtime) -> None:
    a, b = (told(ask(runtime, "mortal", "5", sequence)) for sequence in "ab")
    assert a["worker"] != b["worker"]

    died = ask(runtime, "mortal", "die", "a")
    gone_on = [ask(runtime, "mortal", "1", sequence) for sequence in "ab"]

    assert (died.status, died.document["component"]) == (502, "worker")
    assert [answer.status for answer in gone_on] == [410, 200]
    assert "had sequence a died, and the sequence's state with it; begin a new one" in gone_on[0].document["error"]
    assert told(gone_on[1]) == {**b, "sum": 6}
    assert told(ask(runtime, "mortal", "1", "a", **{START: "true"}))["sum"] == 1
    assert runtime.get("/v2/health/ready").status == 200


@isvc_mar
def test_a_handler_that_raises_fails_its_batch_and_keeps_its_state(runtime: Runtime) -> None:
    sums = [ask(runtime, "sums", body, "failing") for body in ("1", "fail", "1")]

    assert [answer.status for answer in sums] == [200, 500, 200]
    assert told(sums[2])["sum"] == 2


@the_adapter
def test_torchserve_behind_the_adapter_ends_with_the_worker_whose_sequences_it_would_not_answer(
    runtime: Runtime,
) -> None:
    """The last test: it ends the server."""
    told(ask(runtime, "sums", "1", "a"))

    died = ask(runtime, "sums", "die", "a")

    assert died.status == 502
    assert runtime.wait_exit() == 4
    assert "A worker of model sums (sums.mar) died, and TorchServe does not" in runtime.termination_message
