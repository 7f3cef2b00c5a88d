"""What a handler finds around it: its own packages and modules, and its choice of processes."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.integration.mar_runtime.serving import ACTING, configure, told, write_acting
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Runtime
from tests.support.wheels import make_wheel

# Imported by every worker before it is told whose it is.
IMPORTED = "tqdm"
SPAWNING = b"import multiprocessing\nmultiprocessing.set_start_method('spawn')\n"
SECRET = ".*_PASSWORD"
MODELS = ("plain", "pinning", "hiding", "spawning")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("environment")
    store = folder / "models/model-store"
    write_acting(store, "plain")
    wheel = make_wheel(folder, IMPORTED, "pinned")
    files = {"acting.py": ACTING, "r.txt": f"{IMPORTED} @ {wheel.as_uri()}\n".encode()}
    write_mar(
        store / "pinning.mar", manifest(modelName="pinning", handler="acting.py", requirementsFile="r.txt"), files
    )
    hiding = {"acting.py": ACTING, f"{IMPORTED}.py": b"WORD = 'of the archive'\n"}
    write_mar(store / "hiding.mar", manifest(modelName="hiding", handler="acting.py"), hiding)
    write_mar(store / "spawning.mar", manifest(modelName="spawning", handler="h.py"), {"h.py": SPAWNING + ACTING})
    configure(
        store.parent, "install_py_dep_per_model=true", "default_workers_per_model=1", f"blacklist_env_vars={SECRET}"
    )
    with Runtime("mar", store.parent, has_torch=False, DB_PASSWORD="secret", DB_USER="somebody") as running:
        yield running.wait_ready(MODELS)


@pytest.mark.parametrize(("model", "word"), [("pinning", "pinned"), ("hiding", "of the archive")])
def test_what_an_archive_brings_is_found_before_what_workers_have_imported(
    runtime: Runtime, model: str, word: str
) -> None:
    assert told(runtime, model, "tell_module", name=IMPORTED) == word


@pytest.mark.parametrize(("model", "word"), [("pinning", "pinned"), ("hiding", "of the archive")])
def test_python_processes_of_a_handler_find_what_its_archive_brings(runtime: Runtime, model: str, word: str) -> None:
    assert told(runtime, model, "tell_module_of_a_process", name=IMPORTED) == word


def test_only_a_worker_that_needs_it_does_without_what_others_share(runtime: Runtime) -> None:
    begun_afresh = {model: "run_restarted" in str(psutil.Process(told(runtime, model)).cmdline()) for model in MODELS}

    assert begun_afresh == {"plain": False, "pinning": True, "hiding": True, "spawning": False}


@pytest.mark.parametrize("model", ["plain", "hiding"])
def test_a_handler_does_not_get_what_the_configuration_withholds(runtime: Runtime, model: str) -> None:
    variables = [told(runtime, model, "tell_variable", name=name) for name in ("DB_PASSWORD", "DB_USER")]

    assert variables == [[None, ""], ["somebody", "somebody"]]


@pytest.mark.parametrize("model", ["plain", "hiding"])
def test_a_handler_that_parses_arguments_finds_none_of_the_servers(runtime: Runtime, model: str) -> None:
    assert told(runtime, model, "tell_arguments") == []


def test_a_worker_that_has_begun_afresh_ends_and_is_replaced_as_any_other(runtime: Runtime) -> None:
    worker = told(runtime, "hiding")

    died = runtime.predict("hiding", {"instances": [{"do": "exit"}]})

    assert (died.status, "it exited with code 3: SystemExit: 3 (at acting.py:" in died.document["error"]) == (502, True)
    assert told(runtime, "hiding") != worker


def test_a_handler_chooses_how_its_processes_are_started(runtime: Runtime) -> None:
    assert isinstance(told(runtime, "spawning"), int)
