"""Rows about responses of a running service, which a server or a handler of this process gives."""

from __future__ import annotations

import asyncio
import base64
import json
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

with warnings.catch_warnings(action="ignore"):  # what torch and TorchServe's wheel do when they are imported
    from ts.handler_utils.utils import send_intermediate_predict_response

from data_plane.batching.limits import BatchLimits
from data_plane.batching.sequences import SequenceLimits, Sequences
from data_plane.errors import ServingError
from data_plane.limits import HEAD_TIMEOUT
from data_plane.model import ServableModel
from data_plane.server.budget import Held
from tests.contract.troubles.rows import Elsewhere, Provoked, Tried
from tests.integration.kserve_sdk import test_client as predictors
from tests.support import fake_engine
from tests.support.batching import ControlledModel, call, queue_for, submitted
from tests.support.scripted_server import answers, scripted
from tests.unit.data_plane import test_budget as budgets
from tests.unit.data_plane import test_connections as connections
from tests.unit.endpoints.asking import RecordingModel, Server
from tests.unit.torchserve_compat.running import Handle, instances, run, whole
from torchserve_compat.frames import Form

Try = Callable[[Path], str]
PREDICT = "/v1/models/m:predict"
ONE = b'{"instances": [1]}'
PICTURE = b"\x89PNG\r\n\x1a\n"


def asked(path: str, body: bytes, *models: ServableModel, expected: Sequence[str] = (), limit: int = 1_000) -> Try:
    """Post a body to these models, or to the model `m`; the status and the text of an error."""

    def ask(_: Path) -> str:
        server = Server(*models, expected=tuple(expected), max_request_size=limit)
        answer = asyncio.run(server.ask("POST", path, body))
        return f"{answer.status} {answer.document['error']}" if answer.status >= 400 else ""

    return ask


def of_rows(instance: dict[str, Any]) -> Try:
    """Post an instance to a model that takes `rows`."""

    def ask(place: Path) -> str:
        served = fake_engine.serve(fake_engine.FakeEngine())
        return asked(PREDICT, json.dumps({"instances": [instance]}).encode(), served)(place)

    return ask


def as_base64(content: bytes) -> bytes:
    return json.dumps({"instances": [{"b64": base64.b64encode(content).decode()}]}).encode()


def refused(attempt: Callable[[], Awaitable[object] | object]) -> Try:
    """The status and the text of the error that is raised."""

    async def await_it() -> None:
        attempted = attempt()
        if isinstance(attempted, Awaitable):
            await attempted

    def tried(_: Path) -> str:
        try:
            asyncio.run(await_it())
        except ServingError as error:
            return f"{error.status} {error.message}"
        return ""

    return tried


def handled(handle: Handle, *requests: int, form: Form = "v1") -> Try:
    """Give a handler a batch of requests with so many instances each; the status and the text of its failure."""

    def handle_them(_: Path) -> str:
        envelope = "kserve" if form == "v1" else "none"
        batch = [instances(*range(count)) if form == "v1" else whole(b"1") for count in requests]
        failure = run(envelope, handle, form, batch, lambda _: None).failure
        return f"{failure.status} {failure.message}" if failure else ""

    return handle_them


def halves(data: list[Any], _: Any) -> list[Any]:
    return [half(one) for one in data]


def half(number: int) -> float:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number / 2


def total(data: list[int], _: Any) -> list[int]:
    return [sum(data)]


def large(data: list[Any], _: Any) -> list[Any]:
    if len(data) > 1:
        raise MemoryError
    return data


def streaming(data: list[Any], context: Any) -> list[Any]:
    send_intermediate_predict_response(["piece"], context.request_ids, "ok", 200, context)
    return ["the last piece"]


async def queued(queue_size: int) -> None:
    """Send three requests to a model that is busy with the first."""
    model = ControlledModel()
    queue = queue_for(model, BatchLimits(queue_size=queue_size))
    tasks = await submitted(queue, "a") + await submitted(queue, "b", "c")
    model.free = True
    model.finish()
    await asyncio.gather(*tasks)


async def waited(timeout_s: float) -> None:
    """Send a request to a model that has its result after a moment."""
    model = ControlledModel()
    task = asyncio.ensure_future(queue_for(model, BatchLimits(timeout_s=timeout_s)).submit("a", 1, "key", call()))
    await model.started(1)
    asyncio.get_running_loop().call_later(0.1, model.finish)
    await task


def lost(*, begins: bool) -> None:
    """Go on with a sequence whose worker has died."""
    of = Sequences("m", SequenceLimits(4, max_idle_s=10.0, timeout_s=100.0, queue_size=2), workers=1)
    of.leave(of.enter("a", 0.0), 0.0)
    of.lose(0, 1.0)
    of.enter("a", 2.0, starts=begins)


def begun(maximum: int, *, ends: bool) -> None:
    """Begin a second sequence after the last request of one."""
    of = Sequences("m", SequenceLimits(maximum, max_idle_s=10.0, timeout_s=100.0, queue_size=2), workers=1)
    of.leave(of.enter("a", 0.0), 0.0, ends=ends)
    of.enter("b", 1.0)


def paused(seconds: float) -> Try:
    """Send a request's head with a pause in it."""

    def visit(_: Path) -> str:
        with connections.serving(10) as served, served.visit(b"GET /size HTTP/1.1\r\n") as visitor:
            served.let_pass(seconds)
            if seconds < HEAD_TIMEOUT:
                visitor.send(b"\r\n")
            status, _, document = visitor.answer()
        return f"{status} {document['error']}" if status >= 400 else ""

    return visit


def connected(limit: int) -> Try:
    """Open a third connection while two wait for their bodies."""

    def visit(_: Path) -> str:
        with connections.serving(limit) as served:
            slow = connections.POST % 9
            with served.visit(slow), served.visit(slow), served.visit(connections.WHOLE) as visitor:
                status, _, document = visitor.answer()
        return f"{status} {document['error']}" if status >= 400 else ""

    return visit


def buffered(limit: int) -> Try:
    """Send a body of five bytes while the requests of others hold six."""

    async def ask() -> str:
        server = budgets.Server(limit)
        Held(server.budget).add(6)
        status, document = (await server.ask(b"12345")).answer
        return f"{status} {document}" if status >= 400 else ""

    return lambda _: asyncio.run(ask())


async def predicted(*, is_up: bool) -> None:
    """Call a predictor."""
    async with scripted(answers) as server:
        if is_up:
            await predictors.ask(server)
    if not is_up:
        await predictors.ask(server)


MISBEHAVING = "tests/integration/mar_runtime/test_misbehaving.py"
LATER = "503 with Retry-After"
HERE: tuple[Tried, ...] = (
    Provoked(("400", "The request body is not valid JSON"), "is not valid JSON: trailing comma",
             asked(PREDICT, b'{"instances": [1,]}'), asked(PREDICT, ONE)),
    Provoked(("400", "… is not JSON but bytes"), "A handler gets a file as it is from /predictions/<model>",
             asked(PREDICT, PICTURE), asked(PREDICT, as_base64(PICTURE))),
    Provoked(("400", 'The request has no "instances"'), 'The request has no "instances"; send {"instances": [...]}.',
             asked(PREDICT, b"{}"), asked(PREDICT, ONE)),
    Provoked(("404", "There is nothing at"), "; did you mean /v1/models/m:predict?", asked("/v1/model/m:predict", ONE),
             asked(PREDICT, ONE)),
    Provoked(("404", "Model with name x"), "Model with name x does not exist", asked("/v1/models/x:predict", ONE),
             asked(PREDICT, ONE)),
    Elsewhere(("404, empty, from Envoy or nginx", "–"),
              "tests/e2e/cluster/test_bert_from_a_claim.py::"
              "test_another_host_leads_nowhere_and_those_that_the_ingress_lists_lead_there"),
    Provoked(("408", "The request's head"), f"The request's head did not come within {HEAD_TIMEOUT} s",
             paused(HEAD_TIMEOUT + 1), paused(HEAD_TIMEOUT - 1)),
    Provoked(("413", "… with the limit"), "over the limit of 10 bytes", asked(PREDICT, ONE, limit=10),
             asked(PREDICT, ONE, limit=len(ONE))),
    Provoked(("422", "The model takes the inputs"), "Model m takes the inputs rows",
             of_rows({"rows": [1, 2], "row": 1}), of_rows({"rows": [1, 2]})),
    Provoked(("429 with Retry-After", "… requests wait for model x"), "1 requests wait for model m already",
             refused(lambda: queued(1)), refused(lambda: queued(2))),
    Provoked(("507", "Out of memory"), "Out of memory", handled(large, 1, 1), handled(large, 1)),
    Elsewhere(("500", "… CUDA error: … The process cannot use the GPU"),
              f"{MISBEHAVING}::test_a_worker_that_cannot_use_its_gpu_any_more_is_replaced"),
    Provoked(("500", "ValueError : …"), "ValueError : 1 is odd", handled(halves, 2), handled(halves, 1)),
    Provoked(("500", "The handler must return one prediction"), "2 expected, got 1", handled(total, 2),
             handled(lambda data, _: [one + 1 for one in data], 2)),
    Provoked(("410", "The worker … that had sequence"), "begin a new one", refused(lambda: lost(begins=False)),
             refused(lambda: lost(begins=True))),
    Provoked(("503", "Model … has … sequences already"), "Model m has 1 sequences already (maxNumSequence)",
             refused(lambda: begun(1, ends=False)), refused(lambda: begun(1, ends=True))),
    Elsewhere(("502", "The worker … died while"),
              f"{MISBEHAVING}::test_a_handler_that_ends_its_process_costs_the_request_that_it_held"),
    Provoked(("501", "The handler streams its response"), "use /predictions/<model>", handled(streaming, 1),
             handled(streaming, 1, form="raw")),
    Elsewhere(("", "a streamed response breaks off"),
              "tests/conformance/test_streaming.py::test_an_answer_that_fails_after_a_piece_breaks_off"),
    Provoked((LATER, "the model is not ready"), "Model with name m is not ready: it is loading.",
             asked(PREDICT, ONE, RecordingModel(name="other"), expected=["m"]), asked(PREDICT, ONE)),
    Provoked((LATER, "Requests that are being read"), "(--max-buffered-bytes)", buffered(10), buffered(11)),
    Provoked((LATER, "… connections are open"), "2 connections are open already (--max-connections)", connected(2),
             connected(3)),
    Provoked(("503, `component` is `predictor`", "… cannot be reached"), "whether --predictor_host is right",
             refused(lambda: predicted(is_up=False)), refused(lambda: predicted(is_up=True))),
    Provoked(("504", ""), "did not answer within 0.01 s", refused(lambda: waited(0.01)), refused(lambda: waited(60))),
)  # fmt: skip
