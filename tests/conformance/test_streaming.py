"""Answers in pieces, of the same two archives: TorchServe alone, behind our adapter, and without it.

Each server is started once, TorchServe alone only when it is recorded. The tests that end a worker come last.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.conformance.archives import HANDLERS
from tests.conformance.behaviours import EVERY_KIND
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, TORCHSERVE, Runtime
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

BATCH_SIZE = 4
FOREVER = 1_000_000  # words: more than any test waits for
SETTINGS = {"minWorkers": 1, "maxWorkers": 1, "responseTimeout": 30}
MODELS: dict[str, dict[str, Any]] = {
    "streaming": SETTINGS,
    "continuous": {**SETTINGS, "batchSize": BATCH_SIZE, "continuousBatching": True},
}
BROKEN = (http.client.IncompleteRead, ConnectionResetError)


def model_dir(folder: Path) -> Path:
    for model, settings in MODELS.items():
        files = {
            f"{model}.py": (HANDLERS / f"{model}.py").read_bytes(),
            "model-config.yaml": json.dumps(settings).encode(),  # which is YAML, too
        }
        described = manifest(modelName=model, handler=f"{model}.py", configFile="model-config.yaml")
        write_mar(folder / f"model-store/{model}.mar", described, files)
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text("load_models=all\nservice_envelope=\n")
    return folder


@pytest.fixture(scope="module", params=EVERY_KIND)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(request.param, model_dir(tmp_path_factory.mktemp("streaming")), has_torch=False) as running:
        yield running.wait_ready(MODELS)


class Stream:
    """A request to a model, and its answer while it comes."""

    def __init__(self, runtime: Runtime, model: str, document: object, timeout_s: float = 60, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", runtime.port, timeout=timeout_s)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request("POST", f"/predictions/{model}", json.dumps(document), named)
            self.answer = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self, size: int) -> str:
        """Exactly so many characters, as soon as they are there."""
        text = b""
        while len(text) < size:
            piece = self.answer.read1(size - len(text))
            assert piece, text
            text += piece
        return text.decode()

    def rest(self) -> str:
        return self.answer.read().decode()


def ask(runtime: Runtime, model: str, **document: Any) -> str:
    """The whole text of an answer that must be good."""
    with Stream(runtime, model, document) as stream:
        assert stream.answer.status == 200
        return stream.rest()


def stream_infer(runtime: Runtime, model: str, document: object) -> list[pb.ModelStreamInferResponse]:
    """All answers to one request of ModelStreamInfer, which is the document as a text."""
    text = Tensor.from_numpy("data", np.array([json.dumps(document).encode()], dtype=object))
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        stub: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        return list(stub(iter([wire.request_to_proto(TensorRequest((text,)), model)]), timeout=30))


def text_of(answer: pb.ModelStreamInferResponse) -> str:
    (tensor,) = wire.response_from_proto(answer.infer_response).outputs
    return str(tensor.data.item().decode())


# --- a handler that sends pieces -----------------------------------------------------------------


def test_a_piece_reaches_the_client_before_the_next_one_is_made(runtime: Runtime, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Stream(runtime, "streaming", {"wait_for": str(gate)}) as stream:
        first = stream.read(len("word 0 "))
        gate.touch()

        assert (first, stream.rest()) == ("word 0 ", "word 1 word 2 end of it")
        assert stream.answer.headers["transfer-encoding"] == "chunked"
        assert stream.answer.headers["ts_stream_next"] == "true"


def test_the_content_type_is_the_one_that_the_first_piece_has(runtime: Runtime) -> None:
    with Stream(runtime, "streaming", {"type": "text/event-stream"}) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream"


def test_an_answer_that_fails_after_a_piece_breaks_off(runtime: Runtime) -> None:
    with Stream(runtime, "streaming", {"raise_at": 2}) as stream:
        assert stream.read(len("word 0 word 1 ")) == "word 0 word 1 "
        with pytest.raises(BROKEN):
            stream.rest()

    if runtime.kind in OURS:
        request_id = stream.answer.headers["x-request-id"]
        (line,) = [line for line in runtime.log.splitlines() if "broke off with" in line and request_id in line]
        assert "no more words" in line
    assert ask(runtime, "streaming", words=1) == "word 0 end of it"


def test_before_the_first_piece_a_failure_is_an_error(runtime: Runtime) -> None:
    with Stream(runtime, "streaming", {"raise_at": 0}) as stream:
        body = stream.rest()

    if runtime.kind == TORCHSERVE:
        assert (stream.answer.status, json.loads(body)["message"]) == (503, "Prediction failed")
    else:
        assert (stream.answer.status, json.loads(body)["error"]) == (500, "ValueError : no more words")


# --- a running batch -----------------------------------------------------------------------------


def test_each_step_is_a_piece(runtime: Runtime) -> None:
    assert ask(runtime, "continuous", words=3) == "word 0 word 1 word 2 "


def test_a_handler_gets_the_request_once_and_its_headers_at_each_step(runtime: Runtime) -> None:
    assert ask(runtime, "continuous", words=3, tell="rows") == "['body'][][]"
    with Stream(runtime, "continuous", {"words": 3, "tell": "header"}, x_word="a") as stream:
        assert stream.rest() == "a,a,a,"


def test_objects_are_json_one_after_the_other(runtime: Runtime) -> None:
    with Stream(runtime, "continuous", {"words": 2, "tell": "json", "type": "application/json"}) as stream:
        pieces = "".join(json.dumps({"text": f"word {number}", "ids": [number]}, indent=2) for number in range(2))

        assert (stream.answer.headers["content-type"], stream.rest()) == ("application/json", pieces)


def test_a_request_joins_those_that_run_and_leaves_before_they_end(runtime: Runtime) -> None:
    with Stream(runtime, "continuous", {"words": FOREVER}) as longest:
        longest.read(1)

        assert ask(runtime, "continuous", words=3, tell="batch") == "2,2,2,"
        longest.read(100)


def test_a_client_that_hangs_up_leaves_the_batch_and_the_handler_is_told(runtime: Runtime) -> None:
    with Stream(runtime, "continuous", {"words": FOREVER}) as longest:
        longest.read(1)

    eventually(lambda: ask(runtime, "continuous", words=1 + 1, tell="cached") == "1,1,", "it is alone in the batch")


def test_more_requests_than_the_batch_has_room_for_wait_for_others_to_leave(runtime: Runtime) -> None:
    number = 3 * BATCH_SIZE
    with ThreadPoolExecutor(number) as clients:
        answers = list(clients.map(lambda _: ask(runtime, "continuous", words=20, tell="batch"), range(number)))

    sizes = [[int(size) for size in answer.split(",")[:-1]] for answer in answers]
    assert [len(one) for one in sizes] == [20] * number
    assert max(map(max, sizes)) == BATCH_SIZE


def test_a_handler_that_fails_breaks_off_the_answers_of_its_batch(runtime: Runtime) -> None:
    with Stream(runtime, "continuous", {"words": FOREVER}) as other:
        other.read(1)
        with Stream(runtime, "continuous", {"words": 3, "raise_at": 1}) as failing:
            for stream in (failing, other):
                with pytest.raises(BROKEN):
                    stream.rest()

    assert ask(runtime, "continuous", words=2) == "word 0 word 1 "


def test_an_answer_of_one_piece_is_answered(runtime: Runtime) -> None:
    if runtime.kind == TORCHSERVE:  # which sends nothing at all
        with pytest.raises(TimeoutError):
            Stream(runtime, "continuous", {"words": 1}, timeout_s=3)
    else:
        assert ask(runtime, "continuous", words=1) == "word 0 "


def test_the_v1_protocol_is_refused(runtime: Runtime) -> None:
    """TorchServe sends the pieces, which are no JSON together."""
    answers = [runtime.predict(model, {"instances": ["{}"]}) for model in MODELS]

    assert {answer.status for answer in answers} == {200 if runtime.kind == TORCHSERVE else 501}
    if runtime.kind in OURS:
        assert all("use /predictions/<model>" in answer.document["error"] for answer in answers)


@pytest.mark.parametrize(
    ("model", "document", "texts"),
    [
        ("streaming", {}, ["word 0 ", "word 1 ", "word 2 ", "end of it"]),
        ("continuous", {"words": 2}, ["word 0 ", "word 1 "]),
        ("continuous", {"words": 1}, ["word 0 "]),
    ],
)
def test_by_grpc_each_piece_is_a_response(
    runtime: Runtime, model: str, document: dict[str, Any], texts: list[str]
) -> None:
    if runtime.kind == TORCHSERVE:
        with pytest.raises(grpc.RpcError) as raised:
            stream_infer(runtime, model, document)
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
        return
    answers = stream_infer(runtime, model, document)

    assert [text_of(answer) for answer in answers] == texts
    finals = [answer.infer_response.parameters["triton_final_response"].bool_param for answer in answers]
    assert finals == [*[False] * (len(texts) - 1), True]


def test_by_grpc_a_failure_after_a_piece_is_told(runtime: Runtime) -> None:
    if runtime.kind in OURS:
        *pieces, last = stream_infer(runtime, "continuous", {"words": 3, "raise_at": 2})

        assert [text_of(answer) for answer in pieces] == ["word 0 ", "word 1 "]
        assert last.error_message == "ValueError : no more words"


# --- workers that die ----------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_worker_that_dies_breaks_its_answer_off_and_is_replaced(runtime: Runtime, model: str) -> None:
    with Stream(runtime, model, {"words": 3, "die_at": 2}) as stream, pytest.raises(BROKEN):
        stream.rest()

    def answers_again() -> bool:
        with contextlib.suppress(*BROKEN, AssertionError):
            return ask(runtime, model, words=2).startswith("word 0 word 1 ")
        return False

    eventually(answers_again, "another worker answers", within=120)
