"""Several models, versions and workers of one server, loaded and unloaded as it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.mar_runtime.serving import ACTING, Waiting, configure, do, result, told, write_acting
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Answer, Request, Runtime
from tests.support.wheels import make_wheel

YAML = b"minWorkers: 2\nprobe: [1, two]\n"
WORD = "from a wheel"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving")
    store = folder / "models/model-store"
    for version in ("1.0", "2.0"):
        write_acting(store, "versions", version)
    described = manifest(modelName="pair", handler="acting.py", configFile="c.yaml")
    write_mar(store / "pair-1.0.mar", described, {"acting.py": ACTING, "c.yaml": YAML})
    wheel = make_wheel(folder, "words", WORD)
    described = manifest(modelName="installing", handler="acting.py", requirementsFile="r.txt")
    files = {"acting.py": ACTING, "r.txt": f"words @ {wheel.as_uri()}\n".encode()}
    write_mar(store / "installing-1.0.mar", described, files)
    write_acting(store, "later")
    served = ("versions-1.0.mar", "versions-2.0.mar", "pair-1.0.mar", "installing-1.0.mar")
    configure(
        store.parent,
        f"load_models={','.join(served)}",
        "install_py_dep_per_model=true",
        "model_snapshot=",
        "cors_allowed_origin=https://pages.example",
        "enable_model_api=true",
        f"models={json.dumps({'versions': {'1.0': {'marName': 'versions-1.0.mar', 'defaultVersion': True}}})}",
    )
    return store


@pytest.fixture(scope="module")
def runtime(store: Path) -> Iterator[Runtime]:
    with Runtime("mar", store.parent, has_torch=False) as running:
        yield running.wait_ready(["versions", "pair", "installing"])


def post(runtime: Runtime, path: str) -> Answer:
    return runtime.send(Request("POST", path))


def index(runtime: Runtime) -> dict[str, list[str]]:
    entries = post(runtime, "/v2/repository/index").document
    return {
        entry["name"]: sorted([*(e["version"] for e in entries if e["name"] == entry["name"])]) for entry in entries
    }


def load_all_of(store: Path, *more: str) -> None:
    """Changes the configuration to serve archives besides those that are served."""
    path = store.parent / "config/config.properties"
    lines = path.read_text().splitlines()
    served = ["versions-1.0.mar", "versions-2.0.mar", "pair-1.0.mar", "installing-1.0.mar", *more]
    path.write_text("\n".join([f"load_models={','.join(served)}", *lines[1:], ""]))


def test_every_model_and_version_is_listed(runtime: Runtime) -> None:
    assert runtime.get("/v1/models").document == {"models": ["versions", "pair", "installing"]}
    assert index(runtime) == {"versions": ["1.0", "2.0"], "pair": ["1.0"], "installing": ["1.0"]}


def test_each_phase_of_the_start_is_a_metric(runtime: Runtime) -> None:
    phases = re.findall(r'^server_start_seconds\{phase="(\w+)"\}', runtime.metrics(), re.MULTILINE)

    assert phases == ["imports", "archives", "models"]


def test_a_version_is_chosen_by_its_path_and_the_default_otherwise(runtime: Runtime) -> None:
    body = json.dumps({"instances": [{"do": "tell_version"}]}).encode()

    def version(path: str) -> str:
        return str(result(runtime.send(Request("POST", path, body))))

    assert told(runtime, "versions", "tell_version") == "1.0"
    assert version("/predictions/versions/2.0") == "2.0"
    assert runtime.get("/v2/models/versions/versions/3.0").status == 404


def test_a_handler_has_its_settings_and_its_environment(runtime: Runtime) -> None:
    folder = str(runtime.folder / "work/models/pair@1.0/archive")

    assert told(runtime, "pair", "tell_settings") == {"minWorkers": 2, "probe": [1, "two"]}
    assert told(runtime, "pair", "tell_where") == [folder, folder]


def test_two_workers_serve_two_requests_at_a_time(runtime: Runtime, tmp_path: Path) -> None:
    with Waiting(runtime, "pair", tmp_path) as waiting:
        other = told(runtime, "pair")

        assert result(waiting.release()) != other


def test_requirements_are_the_models_own(runtime: Runtime) -> None:
    assert told(runtime, "installing", "tell_module", name="words") == WORD
    assert do(runtime, "pair", "tell_module", name="words").status == 500


# --- loading and unloading ---------------------------------------------------------------------------


def test_a_model_is_loaded_and_unloaded_while_others_are_served(runtime: Runtime) -> None:
    loaded = post(runtime, "/v2/repository/models/later/load")
    worker = told(runtime, "later")
    again = post(runtime, "/v2/repository/models/later/load")
    replaced = told(runtime, "later")
    unloaded = post(runtime, "/v2/repository/models/later/unload")

    assert [loaded.document, again.document] == [{"name": "later", "load": True}] * 2
    assert unloaded.document == {"name": "later", "unload": True}
    assert worker != replaced
    assert do(runtime, "later", "tell").status == 404
    assert {worker, replaced}.isdisjoint(child.pid for child in runtime.children())
    assert runtime.get("/v2/health/ready").document == {"ready": True}


def test_requests_under_way_are_answered_before_a_model_is_unloaded(
    runtime: Runtime, store: Path, tmp_path: Path
) -> None:
    load_all_of(store, "later-1.0.mar")
    post(runtime, "/v2/repository/models/later/load")

    with Waiting(runtime, "later", tmp_path) as waiting, ThreadPoolExecutor(1) as client:
        unloading = client.submit(post, runtime, "/v2/repository/models/later/unload")
        runtime.wait_until(lambda: runtime.get("/v1/models/later").status == 503, "it is being unloaded")
        refused = do(runtime, "later", "tell")

        assert isinstance(result(waiting.release()), int)
        assert unloading.result().status == 200
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


def test_a_model_that_cannot_be_loaded_leaves_all_others_alone(runtime: Runtime, store: Path) -> None:
    broken = write_mar(store / "broken-1.0.mar", manifest(modelName="broken"), {"handler.py": b"import nothing_here\n"})
    load_all_of(store, broken.name)

    refused = post(runtime, "/v2/repository/models/broken/load")

    assert (refused.status, refused.document["component"]) == (500, "model")
    assert refused.document["error"].startswith(
        "Model broken (broken-1.0.mar) could not be loaded: ModuleNotFoundError: No module named 'nothing_here'"
    )
    assert "to the model's requirements.txt, or install it beside the server" in refused.document["error"]
    assert "broken" not in index(runtime)
    assert runtime.get("/v2/health/ready").document == {"ready": True}
    assert [told(runtime, model) != 0 for model in ("versions", "pair", "installing")] == [True] * 3


def test_a_loaded_model_whose_worker_keeps_dying_is_given_up_and_the_others_are_served(
    runtime: Runtime, store: Path
) -> None:
    load_all_of(store, "later-1.0.mar")
    post(runtime, "/v2/repository/models/later/load")

    deaths = [do(runtime, "later", "exit").status for _ in range(5)]
    runtime.wait_until(lambda: "model later is given up" in runtime.log, "it is given up")
    told_of_itself = runtime.get("/v2/models/later/ready")
    refused = do(runtime, "later", "tell")
    (entry,) = [one for one in post(runtime, "/v2/repository/index").document if one["name"] == "later"]

    assert deaths == [502] * 5
    reason = told_of_itself.document["reason"]
    assert re.fullmatch(
        r"is given up until it is loaded again\. The worker of model later \(later-1\.0\.mar\) died 5 times in a row; "
        r"the last time it exited with code 3: SystemExit: 3 \(at acting\.py:\d+ in exit\); let the handler "
        r"raise an exception instead",
        reason,
    )
    assert (told_of_itself.status, told_of_itself.document) == (
        503,
        {"name": "later", "ready": False, "reason": reason},
    )
    assert (refused.status, refused.document["error"]) == (503, f"Model with name later is not ready: it {reason}.")
    assert entry == {"name": "later", "version": "1.0", "state": "UNAVAILABLE", "reason": reason}
    assert runtime.get("/v2/health/ready").document == {"ready": True}
    assert [told(runtime, model) != 0 for model in ("versions", "pair", "installing")] == [True] * 3

    assert post(runtime, "/v2/repository/models/later/load").status == 200
    assert isinstance(told(runtime, "later"), int)
    assert post(runtime, "/v2/repository/models/later/unload").status == 200


def test_a_configuration_that_has_become_wrong_leaves_all_models_alone(runtime: Runtime, store: Path) -> None:
    (store / "broken.mar").write_bytes(b"no archive")
    load_all_of(store, "broken.mar")

    refused = post(runtime, "/v2/repository/models/pair/load")

    assert (refused.status, "/broken.mar is not a zip archive" in refused.document["error"]) == (500, True)
    assert isinstance(told(runtime, "pair"), int)
    (store / "broken.mar").unlink()


def test_an_archive_that_the_configuration_names_can_be_put_there_later(runtime: Runtime, store: Path) -> None:
    load_all_of(store, "absent-1.0.mar")
    missing = post(runtime, "/v2/repository/models/absent/load")
    write_acting(store, "absent")
    loaded = post(runtime, "/v2/repository/models/absent/load")

    assert (missing.status, loaded.status) == (404, 200)
    assert isinstance(told(runtime, "absent"), int)
    assert post(runtime, "/v2/repository/models/absent/unload").status == 200
