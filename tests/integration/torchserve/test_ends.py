"""How the adapter ends: with an exit code and one line that says why, or after a drain."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from tests.integration.torchserve import handlers
from tests.integration.torchserve.running import Adapter, Answer, model_dir
from tests.support.archives import build_archive

EVERYTHING = "load_models=all\ndefault_workers_per_model=1\n"


def models(folder: Path, handler: str, config: str = EVERYTHING) -> Path:
    made = model_dir(folder / "models", config)
    build_archive(made / "model-store", "lengths.mar", handler)
    return made


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (handlers.FAILING, "could not be loaded: RuntimeError: the weights are not there (at handler.py:4 in init"),
        (handlers.IMPORTING, "No module named 'a_module_that_nobody_has' (at handler.py:2 in <module>). Add a_module"),
        (handlers.DYING, "lengths.mar) died without a Python exception; if it was killed for memory"),
    ],
    ids=["raises in initialize", "lacks a dependency", "is killed"],
)  # fmt: skip
def test_a_model_that_cannot_be_loaded_ends_the_pod_with_its_exception(
    tmp_path: Path, handler: str, message: str
) -> None:
    with Adapter(models(tmp_path, handler)) as adapter:
        assert adapter.wait_exit() == 4
        assert message in adapter.termination_message
        assert adapter.termination_message in adapter.log
        assert len(adapter.termination_message.splitlines()) == 1


def test_a_killed_torchserve_ends_the_pod(tmp_path: Path) -> None:
    with Adapter(models(tmp_path, handlers.LENGTHS)) as adapter:
        workers = adapter.wait_ready().workers()
        adapter.torchserve().kill()

        assert adapter.wait_exit() == 5
        assert adapter.termination_message.startswith("TorchServe was killed by SIGKILL (if that was for memory")
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert (len(gone), alive) == (1, [])


def test_sigterm_lets_a_request_under_way_finish(tmp_path: Path) -> None:
    release = tmp_path / "release"
    answers: list[Answer] = []
    with Adapter(models(tmp_path, handlers.LENGTHS)) as adapter:
        adapter.wait_ready()
        document = {"instances": [{"data": f"wait for {release}"}]}
        request = threading.Thread(target=lambda: answers.append(adapter.predict("lengths", document)))
        request.start()
        adapter.wait_until(release.with_suffix(".reached").exists)

        adapter.process.terminate()
        adapter.wait_until(lambda: "draining" in adapter.log)
        release.touch()
        request.join()

        assert adapter.wait_exit() == 0
        assert (answers[0].status, len(answers[0].document["predictions"])) == (200, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "config/config.properties cannot be read (No such file or directory)"),
        ("load_models=\\u00", "is not a Java properties file"),
        ("model_snapshot={", "model_snapshot in config.properties is not valid JSON"),
        ("load_models=other.mar", "other.mar is not in the model store"),
        ("model_store=here", None),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_cause(
    tmp_path: Path, config: str | None, message: str | None
) -> None:
    folder = model_dir(tmp_path / "models", config or "")
    if config is None:
        (folder / "config/config.properties").unlink()
    with Adapter(folder) as adapter:
        assert adapter.wait_exit() == 3
        assert (message or "There is no archive in the model store") in adapter.termination_message


def test_a_truncated_archive_is_refused_with_its_name(tmp_path: Path) -> None:
    folder = models(tmp_path, handlers.LENGTHS)
    archive = folder / "model-store" / "lengths.mar"
    archive.write_bytes(archive.read_bytes()[:200])
    with Adapter(folder) as adapter:
        assert adapter.wait_exit() == 3
        assert "lengths.mar" in adapter.termination_message
        assert "is it truncated?" in adapter.termination_message


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    folder = models(tmp_path, handlers.LENGTHS)
    with Adapter(folder) as first:
        first.wait_until(lambda: first.get("/v2/health/live").status == 200)
        with Adapter(folder, HTTP_PORT=str(first.port)) as second:
            assert second.wait_exit() == 1
            assert second.termination_message.startswith(f"Port {first.port} cannot be opened: Address already in use")
