"""A handler inside TorchServe's own worker, called as that calls it: what TorchServe gets back for its requests."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from ts.handler_utils.utils import send_intermediate_predict_response
from ts.service import Service

from tests.unit.torchserve_compat.running import MANIFEST, Metrics
from torchserve_compat import frames
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult, Piece, RequestPart
from torchserve_compat.wire import Kind, Unframer
from torchserve_compat.worker.calls import HandlerCalls

CONTENT = "application/json"


class TimedMetrics(Metrics):
    def add_time(self, *_: Any) -> None:
        """TorchServe's own metric."""


class Socket:
    """TorchServe's end: what was sent to it, read as it reads it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Said]] = []

    def sendall(self, message: bytes) -> None:
        self.sent.append(read(bytes(message)))


Said = tuple[str | None, bytes]  # the header ts_stream_next, and the body


def read(message: bytes) -> dict[str, Said]:
    """The answers in a message, by the ids of TorchServe's requests."""
    position = 0

    def number() -> int:
        nonlocal position
        position += 4
        return int.from_bytes(message[position - 4 : position], signed=True)

    def field(size: int | None = None) -> bytes:
        nonlocal position
        size = number() if size is None else size
        position += size
        return message[position - size : position]

    assert number() == 200
    field()
    found = {}
    while (size := number()) != -1:
        carrier = field(size).decode()
        field(), number(), field()
        headers = {field().decode(): field().decode() for _ in range(number())}
        found[carrier] = (headers.get("ts_stream_next"), field())
    return found


class Worker:
    """As much of TorchServe's worker as there is around a handler."""

    def __init__(self, handle: Any, **yaml: Any) -> None:
        calls = HandlerCalls(handle, "none")
        self.service = Service("m", "/models/m", MANIFEST, calls.handle, None, 4, metrics_cache=TimedMetrics())
        self.service.context.model_yaml_config = yaml
        self.socket = Socket()
        self.service.set_cl_socket(self.socket)

    def predict(self, *carriers: tuple[str, HandlerRequest | None]) -> dict[str, Said]:
        """Each carrier has the frame of one request; one that the worker knows already comes without."""
        batch = []
        for name, request in carriers:
            frame = [] if request is None else [frames.encode(HandlerBatch("raw", [request]))]
            parameters = [{"name": "body", "contentType": frames.CONTENT_TYPE, "value": one} for one in frame]
            batch.append({"requestId": name.encode(), "headers": [], "parameters": parameters})
        return read(bytes(self.service.predict(batch)))


def request(id: str, **body: Any) -> HandlerRequest:  # noqa: A002
    return HandlerRequest(id, (), [RequestPart("body", CONTENT, orjson.dumps(body))])


def content(body: bytes) -> list[Any]:
    """The pieces and the result in a body of frames with heads."""
    return [
        (frames.decode_piece if kind == Kind.PIECE else frames.decode_result)(frame)
        for kind, _, frame in Unframer().feed(body)
    ]


def test_without_pieces_an_answer_is_one_frame() -> None:
    said = Worker(lambda rows, _: ["whole"] * len(rows)).predict(("t1", request("a")))

    marked, body = said["t1"]
    assert (marked, frames.decode_result(body).responses[0].body) == (None, b"whole")


def test_pieces_go_back_at_once_and_the_result_ends_them() -> None:
    def handle(rows: list[Any], context: Any) -> list[str]:
        for word in ("one ", "two "):
            send_intermediate_predict_response([word], context.request_ids, "a word", 200, context)
        return ["three"]

    worker = Worker(handle)
    said = worker.predict(("t1", request("a")))

    assert [list(one) for one in worker.socket.sent] == [["t1"], ["t1"]]
    pieces = [(marked, *content(body)) for message in worker.socket.sent for marked, body in message.values()]
    assert [(marked, one.request, one.response.body) for marked, one in pieces] == [
        ("true", "a", b"one "),
        ("true", "a", b"two "),
    ]
    marked, body = said["t1"]
    (result,) = content(body)
    assert (marked, result.responses[0].body) == ("false", b"three")


def count(rows: list[Any], context: Any) -> list[str]:
    """Continuous: as many words as the request asks for."""
    if not hasattr(context, "cache"):
        context.cache = {}
    ids = list(context.request_ids.values())
    for name, row in zip(ids, rows, strict=True):
        if row:
            context.cache[name] = row["body"]["words"]
        context.cache[name] -= 1
    context.stopping_criteria = [lambda _, left=context.cache[name]: left == 0 for name in ids]
    return [f"{name.partition('#')[0]}{context.cache[name]}/{len(ids)}" for name in ids]


def told(said: dict[str, Said]) -> dict[str, tuple[str | None, list[bytes]]]:
    """For each carrier whether more is to come, and the bodies in its frames."""
    return {carrier: (marked, [body_of(one) for one in content(body)]) for carrier, (marked, body) in said.items()}


def body_of(said: Piece | HandlerResult) -> bytes:
    answer: HandlerResponse = said.response if isinstance(said, Piece) else said.responses[0]
    return answer.body


def test_carriers_of_a_running_batch_come_and_go_step_by_step() -> None:
    worker = Worker(count, continuousBatching=True)

    assert told(worker.predict(("t1", request("a", words=2)))) == {"t1": ("true", [b"a1/1"])}
    assert told(worker.predict(("t1", None), ("t2", request("b", words=2)))) == {
        "t1": ("false", [b"a0/2"]),
        "t2": ("true", [b"b1/2"]),
    }
    assert told(worker.predict(("t2", None))) == {"t2": ("false", [b"b0/1"])}


def test_an_answer_that_ends_with_its_first_piece_is_ended_in_another_call() -> None:
    """TorchServe sends no head of one that it is told to end at once."""
    worker = Worker(count, continuousBatching=True)

    assert told(worker.predict(("t1", request("a", words=1)))) == {"t1": ("true", [b"a0/1"])}
    assert told(worker.predict(("t1", None), ("t2", request("b", words=2)))) == {
        "t1": ("false", []),
        "t2": ("true", [b"b1/1"]),
    }


def test_a_carrier_that_torchserve_drops_leaves_the_batch() -> None:
    worker = Worker(count, continuousBatching=True)
    worker.predict(("t1", request("a", words=9)), ("t2", request("b", words=9)))

    assert told(worker.predict(("t2", None))) == {"t2": ("true", [b"b7/1"])}


def test_a_handler_that_fails_ends_all_its_answers() -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no words")

    worker = Worker(fail, continuousBatching=True)
    said = worker.predict(("t1", request("a")), ("t2", request("b")))

    failures = [one.failure for _, body in said.values() for one in content(body)]
    assert [failure.message for failure in failures] == ["ValueError : no words"] * 2
    assert worker.predict(("t1", None), ("t2", None)) == {"t1": ("false", b""), "t2": ("false", b"")}


def test_a_carrier_that_this_worker_has_never_seen_is_ended() -> None:
    """As of one whose worker died: nobody has its request any more."""
    worker = Worker(count, continuousBatching=True)

    assert worker.predict(("t1", None)) == {"t1": ("false", b"")}


@pytest.mark.parametrize("yaml", [{}, {"continuousBatching": False}, {"continuousBatching": "true"}])
def test_only_true_makes_a_running_batch(yaml: dict[str, Any]) -> None:
    said = Worker(lambda rows, _: ["whole"] * len(rows), **yaml).predict(("t1", request("a")))

    assert said["t1"][0] is None
