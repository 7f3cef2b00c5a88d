"""Handlers that raise, hang or end their process: what it costs, whom it costs, and what is told."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.integration.mar_runtime.serving import Waiting, do, metric, model_dir, result, told
from tests.support.raw_client import Visitor
from tests.support.runtimes import Answer, Request, Runtime

# One model for each, so that none pays for another's deaths.
DEATHS = {
    "exit": "it exited with code 3: SystemExit: 3 (at acting.py:",
    "interrupt": "it exited with code 1: KeyboardInterrupt:  (at acting.py:",
    "end": "it exited with code 7; let the handler raise an exception instead.",
    "kill": "it was ended by SIGKILL; if that was for memory, give it more, on a cluster by resources.limits.memory.",
    "crash": "it was ended by SIGABRT; native code crashed, of the handler or of a package that it uses.",
}
MODELS = {
    **{death: {} for death in DEATHS},
    "m": {},
    "hasty": {"responseTimeout": 2},
    "slow": {},
    "again": {},
    "narrow": {"jobQueueSize": 1},
    "often": {},
    "merged": {},
    "quoted": {},
}
REQUEST_TIMEOUT_S = 6


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = model_dir(tmp_path_factory.mktemp("misbehaving"), MODELS)
    flags = ("--request-timeout", str(REQUEST_TIMEOUT_S), "--max-request-size=100000000")
    with Runtime("mar", folder, *flags, has_torch=False) as running:
        yield running.wait_ready(MODELS)


def test_a_handler_may_quote_what_no_answer_can_hold(runtime: Runtime) -> None:
    """Half of a surrogate pair, which Python reads out of JSON and UTF-8 cannot carry."""
    worker = told(runtime, "m")

    failed = quoting(runtime, "m", "quote")
    last = quoting(runtime, "quoted", "quote_last")

    assert (failed.status, failed.document["error"]) == (500, r"ValueError : cannot read \ud800")
    assert r"\ud800" in runtime.log
    assert told(runtime, "m") == worker
    assert last.status == 502
    assert r"it exited with code 1: SystemExit: \ud800 (at acting.py:" in last.document["error"]


def quoting(runtime: Runtime, model: str, action: str) -> Answer:
    """An answer of TorchServe's API: v1 takes no such text."""
    body = json.dumps({"do": action, "text": "\ud800"}).encode()
    return runtime.send(Request("POST", f"/predictions/{model}", body, (("content-type", "application/json"),)))


@pytest.mark.parametrize("death", DEATHS)
def test_a_handler_that_ends_its_process_costs_the_request_that_it_held(runtime: Runtime, death: str) -> None:
    before = told(runtime, death)

    lost = do(runtime, death, death)

    assert (lost.status, lost.document["component"]) == (502, "worker")
    assert f"The worker of model {death} died while it had the request: {DEATHS[death]}" in lost.document["error"]
    assert told(runtime, death) != before
    assert {told(runtime, other) for other in DEATHS if other != death}


def test_the_batch_that_waits_behind_another_survives_its_worker(runtime: Runtime, tmp_path: Path) -> None:
    worker = told(runtime, "m")
    with ThreadPoolExecutor(1) as client, Waiting(runtime, "m", tmp_path) as waiting:
        behind = client.submit(told, runtime, "m")
        runtime.get("/v1/models/m")  # that one has been sent to the worker now
        os.kill(worker, signal.SIGKILL)

        assert waiting.answer.result().status == 502
        assert behind.result() != worker


def test_a_worker_that_cannot_use_its_gpu_any_more_is_replaced(runtime: Runtime, tmp_path: Path) -> None:
    """No request is sent to it after the one that fails, and what is in its queue goes to the next one."""
    worker = told(runtime, "m")
    with ThreadPoolExecutor(2) as clients, Waiting(runtime, "m", tmp_path) as waiting:
        failed = clients.submit(do, runtime, "m", "lose_gpu")
        runtime.get("/v1/models/m")  # that one has been sent to the worker now
        behind = clients.submit(told, runtime, "m")
        runtime.get("/v1/models/m")
        waiting.release()

        assert failed.result().document["error"] == (
            "RuntimeError : CUDA error: device-side assert triggered. A number in the request may be out of the "
            "model's range, such as a token outside its vocabulary. The process cannot use the GPU any more after such "
            "an error, and is replaced."
        )
        assert (failed.result().status, behind.result() == worker) == (500, False)


def test_a_worker_that_dies_while_it_has_nothing_to_do_costs_no_request(runtime: Runtime) -> None:
    """Its end takes a second to be sure of, where a process of the handler keeps the connection."""
    worker = told(runtime, "m")
    told(runtime, "m", "fork")

    os.kill(worker, signal.SIGKILL)
    runtime.wait_until(lambda: not psutil.pid_exists(worker), "it is gone")

    assert told(runtime, "m") != worker


def test_of_requests_that_were_merged_only_the_fatal_one_fails(runtime: Runtime, tmp_path: Path) -> None:
    with Waiting(runtime, "merged", tmp_path) as waiting, contextlib.ExitStack() as clients:
        ahead, *merged = [
            clients.enter_context(sent(runtime, "merged", action)) for action in ("tell", "tell", "kill", "tell")
        ]
        runtime.get("/v1/models/merged")  # the first of them has gone to the worker, the others are in the queue
        waiting.release()

        assert [client.answer()[0] for client in (ahead, *merged)] == [200, 200, 502, 200]
    assert metric(runtime, 'batches_retried_total{model_name="merged"}') == 1


@contextlib.contextmanager
def sent(runtime: Runtime, model: str, action: str) -> Iterator[Visitor]:
    """A request whose answer is not read yet."""
    body = json.dumps({"instances": [{"do": action}]})
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with Visitor(socket.create_connection(("127.0.0.1", runtime.port))) as client:
        client.send((head + body).encode())
        runtime.get("/v1/models")  # it is in the server when a later one has been answered
        yield client


def test_what_a_handler_says_last_is_in_the_log(runtime: Runtime) -> None:
    do(runtime, "end", "say", text="these are my last words")
    do(runtime, "end", "end")

    assert "these are my last words" in runtime.log
    assert "the handler ended its process" in runtime.log  # with the traceback of "exit"


def test_a_handler_that_hangs_is_ended_with_what_it_started(runtime: Runtime) -> None:
    before, started = told(runtime, "hasty"), told(runtime, "hasty", "start")

    given_up = do(runtime, "hasty", "hang")

    assert (given_up.status, given_up.document["error"]) == (
        504,
        "Model hasty did not answer within 2 s (responseTimeout); its worker is replaced.",
    )
    assert told(runtime, "hasty") != before
    runtime.wait_until(lambda: started not in [child.pid for child in runtime.children()], "it is gone")


def test_what_a_worker_leaves_behind_is_collected_when_it_ends(runtime: Runtime) -> None:
    """In a container the server is the first process, to which it would go else, and stay."""
    left = told(runtime, "often", "leave")

    do(runtime, "often", "kill")
    told(runtime, "often")
    processes = [child for child in runtime.children() if child.pid == left]
    os.kill(left, signal.SIGKILL)

    assert len(processes) == 1
    runtime.wait_until(lambda: not psutil.pid_exists(left), "it is collected")
    assert "waitpid" not in runtime.log


def test_while_there_is_no_worker_the_server_is_not_ready_and_requests_wait(runtime: Runtime) -> None:
    closed = runtime.folder / "work/models/slow@1.0/closed"
    closed.touch()
    do(runtime, "slow", "kill")

    ready, model, index = (
        runtime.get(path) for path in ("/v2/health/ready", "/v1/models/slow", "/v2/models/slow/ready")
    )
    with ThreadPoolExecutor(1) as client:
        waiting = client.submit(told, runtime, "slow")
        told(runtime, "m")
        closed.unlink()

        assert isinstance(waiting.result(), int)
    assert [ready.status, model.status, index.status] == [503, 503, 503]
    assert ready.document["models"]["slow"] == (
        "lost its worker (it was ended by SIGKILL; if that was for memory, give it more, on a cluster by "
        "resources.limits.memory); a new one is being started"
    )
    assert runtime.get("/v2/health/ready").document == {"ready": True}


def test_a_batch_whose_callers_are_gone_before_there_is_a_worker_again_is_dropped(
    runtime: Runtime, tmp_path: Path
) -> None:
    notes, closed = tmp_path / "notes", runtime.folder / "work/models/again@1.0/closed"
    worker = told(runtime, "again")
    with ThreadPoolExecutor(1) as client, Waiting(runtime, "again", tmp_path):
        behind = client.submit(do, runtime, "again", "note", file=str(notes), text="dropped")
        runtime.get("/v1/models/again")  # that one has been sent to the worker now
        closed.touch()
        os.kill(worker, signal.SIGKILL)
        assert behind.result().status == 504
    closed.unlink()

    for _ in range(2):  # a worker answers in order: what was sent to it with the first comes before the second
        told(runtime, "again", "note", file=str(notes), text="kept ")

    assert notes.read_text() == "kept kept "


def test_a_full_queue_refuses_and_a_client_that_hung_up_is_dropped(runtime: Runtime, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    dropped = json.dumps({"instances": [{"do": "note", "file": str(notes), "text": "dropped"}]}).encode()
    with (
        Waiting(runtime, "narrow", tmp_path) as waiting,
        socket.create_connection(("127.0.0.1", runtime.port)) as client,
    ):
        head = f"POST /v1/models/narrow:predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(dropped)}\r\n\r\n"
        client.sendall(head.encode() + dropped)
        # The queue holds that one now.
        refused = do(runtime, "narrow", "tell")
        client.close()
        result(waiting.release())
        told(runtime, "narrow", "note", file=str(notes), text="kept")

    assert (refused.status, refused.headers["retry-after"], refused.document["component"]) == (429, "1", "queue")
    assert notes.read_text() == "kept"
    assert metric(runtime, 'requests_abandoned_total{model_name="narrow"}') == 1
    assert metric(runtime, 'requests_rejected_total{model_name="narrow"}') == 1


def test_large_requests_and_answers_come_through_whole(runtime: Runtime) -> None:
    text = "large " * 2_000_000

    assert told(runtime, "m", "echo", text=text) == text
