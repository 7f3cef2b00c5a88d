"""How the adapter ends: with an exit code and one line that says why, or after a drain."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.torchserve import handlers
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.archives import build_archive
from tests.support.runtimes import Answer, wait_ended

EVERYTHING = "load_models=all\ndefault_workers_per_model=1\n"


def models(folder: Path, handler: str, config: str = EVERYTHING) -> Path:
    made = model_dir(folder / "models", config)
    build_archive(made / "model-store", "lengths.mar", handler)
    return made


def test_a_loop_of_crashes_ends_the_pod_with_the_last_of_them(tmp_path: Path) -> None:
    with Adapter(models(tmp_path, handlers.EXITING)) as adapter:
        adapter.wait_all_ready()
        answers = [adapter.predict("lengths", {"instances": ["exit"]}) for _ in range(5)]

        assert adapter.wait_exit() == 4
        assert [(answer.status, answer.document["component"]) for answer in answers] == [(502, "worker")] * 5
        assert adapter.termination_message == (
            "The worker of model lengths (lengths.mar) died 5 times in a row; the last time by SystemExit: 3 "
            "(at handler.py:6 in handle). Correct the handler or the files of the model, and serve it again."
        )


def test_a_model_that_takes_too_long_to_load_ends_the_pod(tmp_path: Path) -> None:
    with Adapter(models(tmp_path, handlers.SLOW, f"{EVERYTHING}default_startup_timeout=1\n")) as adapter:
        assert adapter.wait_exit() == 4
        assert adapter.termination_message == (
            "Model lengths (lengths.mar) was not loaded within 1 s (startupTimeout); raise it in the model's settings, "
            "or default_startup_timeout in config.properties, or load less in `initialize`."
        )


def test_a_killed_torchserve_ends_the_pod(tmp_path: Path) -> None:
    folder = models(tmp_path, handlers.LENGTHS)
    with Adapter(folder) as adapter:
        workers = adapter.wait_all_ready().workers()
        adapter.torchserve().kill()

        assert adapter.wait_exit() == 5
        assert adapter.termination_message.startswith("TorchServe was killed by SIGKILL (if that was for memory")
    wait_ended(workers)

    with Adapter(folder) as again:
        assert again.wait_all_ready().predict("lengths", {"instances": [{"data": "text"}]}).document == {
            "predictions": [4]
        }


# --- one adapter, which ends with the last test ------------------------------------------------------


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    folder = models(tmp_path_factory.mktemp("ends"), handlers.LENGTHS)
    build_archive(folder / "model-store", "leaving.mar", handlers.LEAVING)
    build_archive(folder / "model-store", "printing.mar", handlers.PRINTING)
    with Adapter(folder) as running:
        yield running.wait_all_ready()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process take the orphans")
def test_what_an_ended_worker_leaves_behind_is_collected(adapter: Adapter, tmp_path: Path) -> None:
    told = tmp_path / "left"
    adapter.predict("leaving", {"instances": [str(told)]})
    left = psutil.Process(int(told.read_text()))
    adapter.wait_until(lambda: left.ppid() == adapter.process.pid, "the adapter has the orphan")

    left.kill()

    adapter.wait_until(lambda: not left.is_running() and not psutil.pid_exists(left.pid), "it is collected")


def test_what_a_handler_prints_ends_nothing(adapter: Adapter) -> None:
    died = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-printing_1.0] Retry worker: 9000 in 1 seconds."
    texts = [
        "[W-9000-printing_1.0] Retry worker: 9000 in 1 seconds.",
        died,
        f"\n{died}",
        f"\r{died}\u2028{died}\x85{died}",
    ]
    sent = [*texts * 2, "x" * 3_000_000]

    answers = [adapter.predict("printing", {"instances": [text]}) for text in sent]
    answers.append(adapter.predict("printing", {"instances": ["last"]}))

    assert [(answer.status, answer.document) for answer in answers] == [
        (200, {"predictions": [len(text)]}) for text in (*sent, "last")
    ]
    adapter.wait_until(lambda: "] last" in adapter.log, "the last text is in the log")
    assert adapter.process.poll() is None


def test_sigterm_lets_a_request_under_way_finish(adapter: Adapter, tmp_path: Path) -> None:
    release = tmp_path / "release"
    answers: list[Answer] = []
    document = {"instances": [{"data": f"wait for {release}"}]}
    request = threading.Thread(target=lambda: answers.append(adapter.predict("lengths", document)))
    request.start()
    adapter.wait_until(release.with_suffix(".reached").exists, "the request is under way")

    adapter.process.terminate()
    adapter.wait_until(lambda: "draining" in adapter.log, "the adapter drains")
    release.touch()
    request.join()

    assert adapter.wait_exit() == 0
    assert (answers[0].status, len(answers[0].document["predictions"])) == (200, 1)
