"""What ``isvc run`` prints of a container: what people have to know, and each thing once."""

from __future__ import annotations

import asyncio
import io

import pytest

from isvc.limits import HELD_LINES, REPEATED_LINES
from isvc.run import excerpt as module
from isvc.run.errors import RunFailed
from isvc.run.excerpt import Excerpt
from isvc.run.output import Output, PlainOutput, Verbosity

AT = "2026-01-02 03:04:05,678"
SERVER = f"""{AT} INFO    mar_runtime serving m
{AT} INFO    torchserve [main] Initializing plugins manager...
{AT} INFO    torchserve [W-9000-m_1.0-stdout] [PID]12
{AT} INFO    data_plane.server.app POST /v1/models/m:predict answered 400
    a second line of it
{AT} INFO    torchserve_adapter serving m
{AT} INFO    torchserve_compat.packages.installation model m: what requirements.txt needs is in /cache
WARNING: sun.reflect.Reflection.getCallerClass is not supported. This will impact performance.
nvidia-smi not available or failed: Cannot run program "nvidia-smi": error=2, No such file or directory
Model server started.
	at org.pytorch.serve.wlm.WorkerThread.run(WorkerThread.java:192) [model-server.jar:?]
{AT} INFO    torchserve_adapter models can be registered at http://127.0.0.1:8081 (enable_model_api)
{AT} INFO    torchserve_compat.packages.installation model m: installing for requirements.txt: words==1.0
loading my weights
{AT} INFO    torchserve [W-9000-m_1.0-stdout] loading my weights
{AT} INFO    m [worker 7] hello
{AT} ERROR   m [worker 7] it failed
    Traceback (most recent call last):
    KeyError: 'a'
"""
TRANSFORMER = "2026-01-02 03:04:05.678 12"
OF_TRANSFORMER = f"""{TRANSFORMER} data_plane.model_server.life INFO [life.py:run():140] serving at http://127.0.0.1:1
{TRANSFORMER} data_plane.server.app INFO [app.py:_log():285] POST /v1/models/x:predict answered 404: no model x
{TRANSFORMER} transformer_sdk.kserve.serving.server INFO [server.py:run():9] gRPC is not served: grpcio not installed
{TRANSFORMER} transformer_sdk.kserve.serving.predictor_wait INFO [a.py:b():6] the predictor at a:80 takes connections
{TRANSFORMER} kserve INFO [mine.py:preprocess():7] one instance
{TRANSFORMER} data_plane.server.app WARNING [app.py:_log():285] POST /v1/models/m:predict answered 500: KeyError
"""
LIBRARIES = "\n".join(
    f"{AT} INFO    {who} {text}"
    for who in ("m [worker 7]", "torchserve [W-9000-m_1.0-stdout]")
    for text in (
        "generated new fontManager", "ONNX enabled", "OpenVINO is not enabled", "Torch TensorRT not enabled",
        "ONNX enabled in my handler",
    )
)  # fmt: skip
KNOWN = SERVER.splitlines()[11:]


class Printed:
    """An excerpt of a container, and what it has printed."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL, *, is_initializer: bool = False) -> None:
        self._stderr = io.StringIO()
        self._output = Output(PlainOutput(self._stderr, io.StringIO()), verbosity)
        self.excerpt = Excerpt("c", self._output, is_initializer=is_initializer)

    def lines(self) -> list[str]:
        self._output.end()
        return [line.removeprefix("c | ") for line in self._stderr.getvalue().splitlines()]


async def test_what_servers_say_of_their_own_work_is_left_out_and_what_models_say_is_not() -> None:
    printed, verbose, quiet = Printed(), Printed(Verbosity.VERBOSE), Printed(Verbosity.QUIET)

    for line in SERVER.splitlines():
        for each in (printed, verbose, quiet):
            each.excerpt.line(line)

    assert (printed.lines(), verbose.lines(), quiet.lines()) == (KNOWN, SERVER.splitlines(), [])


@pytest.mark.parametrize(
    ("logged", "kept"), [(OF_TRANSFORMER.splitlines(), (2, 4, 5)), (LIBRARIES.splitlines(), (4, 9))]
)
async def test_what_a_transformer_says_of_its_own_work_and_libraries_of_their_start_is_left_out(
    logged: list[str], kept: tuple[int, ...]
) -> None:
    printed, verbose = Printed(), Printed(Verbosity.VERBOSE)

    for line in logged:
        for each in (printed, verbose):
            each.excerpt.line(line)

    assert (printed.lines(), verbose.lines()) == ([logged[place] for place in kept], logged)


async def test_a_bar_that_is_finished_is_left_out() -> None:
    printed = Printed()
    bars = [f"Loading weights: {share}%|{'█' * 5}| {share}/100 [00:00<00:00, 25.94it/s]" for share in (50, 100)]

    for line in (*bars, "done by 100%| of them"):
        printed.excerpt.line(line)

    assert printed.lines() == [bars[0], "done by 100%| of them"]


def test_of_a_download_people_see_its_progress_its_end_and_what_it_has_left_for_them() -> None:
    printed = Printed(is_initializer=True)

    for line in ("pvc://a → /tmp/x", "42 % of 1.5 GiB (80.0 MiB/s, 11 s left)", "copied a (1.5 GiB)", "done: 1 file"):
        printed.excerpt.line(line)
    printed.excerpt.ended_well("left out: b.mar")

    assert printed.lines() == ["42 % of 1.5 GiB (80.0 MiB/s, 11 s left)", "done: 1 file", "left out: b.mar"]


async def test_a_warning_that_comes_again_and_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEEN_FOR", 0.01)
    printed = Printed()

    for number in range(1000):
        printed.excerpt.line(f"{AT} WARNING m [worker {number}] the handler failed (request {number:032x})")
        printed.excerpt.line("    KeyError: 'a'")
    printed.excerpt.line(f"{AT} WARNING m [worker 1] another")
    await asyncio.sleep(0.02)

    first = f"{AT} WARNING m [worker 0] the handler failed (request {0:032x})"
    assert printed.lines() == [
        first, "    KeyError: 'a'", f"{AT} WARNING m [worker 1] another", f"{first} (999 more like this in 0.01 s)"
    ]  # fmt: skip


async def test_a_warning_of_another_exception_or_another_place_is_none_that_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SEEN_FOR", 0.01)
    printed = Printed()

    def fail(exception: str, line: int) -> list[str]:
        record = [
            f"{AT} WARNING m [worker 0] the handler failed", "    Traceback (most recent call last):",
            f'      File "handler.py", line {line}, in handle', "        return self.names[0]", f"    {exception}",
        ]  # fmt: skip
        for each in record:
            printed.excerpt.line(each)
        return record

    first = fail("KeyError: 'a'", 12)
    other = fail("ValueError: no 'a'", 12)
    elsewhere = fail("KeyError: 'a'", 30)
    for _ in range(2):
        fail("KeyError: 'a'", 12)
    last = fail("ValueError: no 'b'", 12)
    await asyncio.sleep(module._RECORD_SECONDS * 2)

    assert printed.lines() == [*first, *other, *elsewhere, f"{first[0]} (2 more like this in 0.01 s)", *last]


async def test_so_many_different_warnings_are_counted() -> None:
    printed = Printed()
    lines = [f"{AT} WARNING m {'x' * number}" for number in range(REPEATED_LINES + 1)]

    for line in (*lines, *lines):
        printed.excerpt.line(line)

    assert printed.lines() == [*lines, lines[-1]]


def test_a_failure_is_told_once_and_then_that_it_came_again() -> None:
    printed = Printed()
    told = []

    for attempt, cause in enumerate(("no port 80", "no port 90", "no weights"), start=1):
        printed.excerpt.line(f"attempt {attempt}")
        told.append(printed.excerpt.failed(RunFailed(f"c failed: {cause}", "c failed"), 10.0 * (attempt - 1)).brief)
    printed.excerpt.line("attempt 4")
    printed.excerpt.ready()

    assert told == [
        "c failed",
        "c failed again, same cause (×2); it is started again in 10 s",
        "c failed; it is started again in 20 s",
    ]
    assert printed.lines() == ["attempt 1", "attempt 3", "attempt 4"]


def test_a_cause_is_told_with_the_failure_only_where_it_is_not_printed_as_a_line() -> None:
    told = {
        (verbosity, is_initializer): Printed(verbosity, is_initializer=is_initializer)
        .excerpt.failed(RunFailed("c failed: no weights", "c failed"), 0)
        .brief
        for verbosity in Verbosity
        for is_initializer in (False, True)
    }

    assert told == {
        (Verbosity.QUIET, False): "c failed: no weights",
        (Verbosity.QUIET, True): "c failed: no weights",
        (Verbosity.NORMAL, False): "c failed",
        (Verbosity.NORMAL, True): "c failed: no weights",
        (Verbosity.VERBOSE, False): "c failed",
        (Verbosity.VERBOSE, True): "c failed",
    }


def test_only_the_last_lines_are_held_back() -> None:
    printed = Printed()
    printed.excerpt.failed(RunFailed("c failed"), 0)

    for number in range(HELD_LINES + 1):
        printed.excerpt.line(f"line {number}")
    printed.excerpt.ready()

    assert printed.lines() == [f"line {number}" for number in range(1, HELD_LINES + 1)]
