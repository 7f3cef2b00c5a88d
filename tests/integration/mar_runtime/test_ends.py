"""How the server ends: with an exit code and one line that says why, or after a drain; nothing outlives it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.integration.mar_runtime.serving import Waiting, do, model_dir, result
from tests.support.runtimes import Runtime, wait_ended

UNEXPECTED, CONFIGURATION_ERROR, MODEL_FAILED = 1, 3, 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return model_dir(tmp_path / "models", {"m": {"minWorkers": 2}, "other": {}})


def closed(runtime: Runtime, model: str) -> Path:
    """Let the handler's `initialize` wait for as long as this file is there."""
    file = runtime.folder / f"work/models/{model}@1.0/closed"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_a_loop_of_crashes_ends_the_server_with_the_last_of_them(folder: Path) -> None:
    with Runtime("mar", folder, has_torch=False) as runtime:
        runtime.wait_ready(["m", "other"])
        answers = [do(runtime, "other", "exit") for _ in range(5)]

        assert runtime.wait_exit() == MODEL_FAILED
        assert [answer.status for answer in answers] == [502] * 5
        assert re.fullmatch(
            r"The worker of model other \(other-1\.0\.mar\) died 5 times in a row; the last time it exited with code "
            r"3: SystemExit: 3 \(at acting\.py:\d+ in exit\); let the handler raise an exception instead\.",
            runtime.termination_message,
        )

    with Runtime("mar", folder, has_torch=False) as runtime:
        runtime.wait_ready(["m", "other"])
        raised = [do(runtime, "other", "fail") for _ in range(5)]

        assert [answer.status for answer in raised] == [500] * 5
        assert isinstance(result(do(runtime, "other", "tell")), int)


def test_sigterm_lets_requests_under_way_finish(folder: Path, tmp_path: Path) -> None:
    with Runtime("mar", folder, has_torch=False) as runtime:
        children = runtime.wait_ready(["m", "other"]).children()
        with Waiting(runtime, "m", tmp_path) as waiting:
            runtime.process.terminate()
            runtime.wait_until(lambda: "draining" in runtime.log, "it drains")

            assert isinstance(result(waiting.release()), int)
        assert runtime.wait_exit() == 0
        wait_ended(children)


def test_sigterm_ends_a_server_that_still_loads(folder: Path) -> None:
    with Runtime("mar", folder, has_torch=False) as runtime:
        closed(runtime, "m")
        runtime.wait_ready(["other"])
        children = runtime.children()

        runtime.process.terminate()

        assert runtime.wait_exit() == 0
        wait_ended(children)


def test_a_killed_server_leaves_nothing_running(folder: Path, tmp_path: Path) -> None:
    with Runtime("mar", folder, has_torch=False) as runtime:
        runtime.wait_ready(["m", "other"])
        children = runtime.children()
        with Waiting(runtime, "m", tmp_path) as waiting:
            runtime.process.kill()

            wait_ended(children)
            assert waiting.answer.exception()


def test_a_model_that_takes_too_long_to_load_ends_the_server(tmp_path: Path) -> None:
    folder = model_dir(tmp_path / "models", {"m": {"startupTimeout": 1}})
    with Runtime("mar", folder, has_torch=False) as runtime:
        closed(runtime, "m")

        assert runtime.wait_exit() == MODEL_FAILED
        assert runtime.termination_message == (
            "Model m (m-1.0.mar) was not loaded within 1 s (startupTimeout); raise it in the model's settings, or "
            "default_startup_timeout in config.properties, or load less in `initialize`."
        )

    model_dir(folder, {"m": {"startupTimeout": 120}})
    with Runtime("mar", folder, has_torch=False) as runtime:
        loads = closed(runtime, "m")
        runtime.wait_until(lambda: runtime.get("/v2/health/ready").status == 503, "it loads")
        loads.unlink()

        runtime.wait_ready(["m"])


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port"])
def test_a_port_that_is_taken_is_named(folder: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with Runtime("mar", folder, flag, port, has_torch=False) as runtime:
            assert runtime.wait_exit() == UNEXPECTED
            assert runtime.termination_message.startswith(f"Port {port} cannot be opened: ")
            assert flag in runtime.termination_message
