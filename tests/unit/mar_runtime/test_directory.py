"""Which models a directory holds, and the configuration that comes with them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from data_plane.limits import MAX_REQUEST
from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.model_directory import ModelDirectory, read
from mar_runtime.configuration.plan import ArchiveRequest, FileRequest
from tests.support.model_folder import manifest, write_mar
from torchserve_compat.store import rules
from torchserve_compat.store.versions import ModelVersion


def look(
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    limit: int | None = None,
    flags: Mapping[str, str] | None = None,
) -> ModelDirectory:
    return read(rules.RuleInputs(folder, environment or {}, Path.is_dir, limit, flags or {}), "service")


def archive(store: Path, name: str, version: str = "1.0") -> Path:
    return write_mar(store / f"{name}-{version}.mar", manifest(modelName=name, modelVersion=version))


def configure(folder: Path, *lines: str) -> None:
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.properties").write_text("\n".join(lines))


def request(path: Path, name: str, version: str = "1.0", *, default: bool = True, **parameters: Any) -> ArchiveRequest:
    return ArchiveRequest(ModelVersion(name, version, path.name, default, parameters), path)


@pytest.mark.parametrize("lines", [["load_models=all"], []])
def test_the_command_line_says_which_archives_of_the_store_are_served(tmp_path: Path, lines: list[str]) -> None:
    one, _ = archive(tmp_path / "model-store", "a"), archive(tmp_path / "model-store", "b")
    configure(tmp_path, *lines)

    assert list(look(tmp_path, flags={"load_models": one.name}).models) == [request(one, "a")]


def test_a_client_may_load_the_newest_archive_of_each_other_model(tmp_path: Path) -> None:
    store = tmp_path / "model-store"
    served, renamed = archive(store, "a"), archive(store, "b")
    newest, _, comma = archive(store, "c", "10.0"), archive(store, "c", "9.0"), archive(store, "d,e")
    (store / "broken.mar").write_bytes(b"none")
    table = {"c": {"10.0": {"batchSize": 4}, "9.0": {"batchSize": 2}}}
    configure(tmp_path, f"load_models={served.name},other={renamed.name}", f"models={json.dumps(table)}")

    found = look(tmp_path)

    assert list(found.models) == [request(served, "a"), request(renamed, "other")]
    assert sorted(found.others, key=lambda one: one.name) == [
        request(renamed, "b", default=False),
        request(newest, "c", "10.0", default=False, batchSize=4),
        request(comma, "d,e", default=False),
    ]


def test_only_settings_that_somebody_chose_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive(tmp_path / "model-store", "a")
    configure(tmp_path, "inference_address=http://0.0.0.0:8085", "metrics_format=prometheus", "plugins_path=p")
    caplog.set_level(logging.INFO)

    look(tmp_path)

    about = {record.levelname: record.getMessage() for record in caplog.records if "→" not in record.getMessage()}
    assert about == {
        "INFO": "config.properties: metrics_format: no setting of TorchServe 0.12; did you mean metrics_mode?",
        "WARNING": "config.properties: plugins_path p has no effect: plugins are Java's; serve with the runtime "
        "kserve-torchserve",
    }


@pytest.mark.parametrize("store", ["mar-store", "."])
def test_archives_are_found_in_another_store_and_beside_nothing_at_all(tmp_path: Path, store: str) -> None:
    assert list(look_at(tmp_path, archive(tmp_path / store, "a"))) == ["a"]


def look_at(folder: Path, *_: Path) -> list[str]:
    return [model.name for model in look(folder).models]


def test_a_snapshot_says_which_versions_are_served_and_how(tmp_path: Path) -> None:
    one, two = archive(tmp_path / "model-store", "a"), archive(tmp_path / "model-store", "a", "2.0")
    archive(tmp_path / "model-store", "unused")
    table = {
        "1.0": {"marName": one.name, "defaultVersion": True},
        "2.0": {"marName": two.name, "batchSize": 4},
    }
    configure(tmp_path, f"model_snapshot={json.dumps({'models': {'bert': table}})}")

    assert list(look(tmp_path).models) == [
        request(one, "bert", **table["1.0"]),
        request(two, "bert", "2.0", default=False, **table["2.0"]),
    ]


def test_the_table_of_models_says_how_and_may_say_which(tmp_path: Path) -> None:
    one = archive(tmp_path / "model-store", "a")
    archive(tmp_path / "model-store", "unused")
    parameters = {"marName": one.name, "minWorkers": 2}
    configure(tmp_path, f"models={json.dumps({'a': {'1.0': parameters}})}")

    assert list(look(tmp_path).models) == [request(one, "a", **parameters)]


@pytest.mark.parametrize("load_models", ["load_models=all", "load_models=a-1.0.mar", "load_models=", ""])
def test_the_table_of_models_may_be_nothing_but_parameters(tmp_path: Path, load_models: str) -> None:
    one = archive(tmp_path / "model-store", "a")
    configure(tmp_path, load_models, f"models={json.dumps({'a': {'1.0': {'minWorkers': 2}}})}")

    assert list(look(tmp_path).models) == [request(one, "a", minWorkers=2)]


def test_an_archive_of_load_models_that_is_not_there_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    one, store = archive(tmp_path / "model-store", "a"), tmp_path / "model-store"
    configure(tmp_path, f"load_models=gone.mar, {one.name}, x=model-store/away.mar")

    found = look(tmp_path)

    assert list(found.models) == [request(one, "a")]
    assert found.missing == {
        name: f"is not served: {file}, which load_models names, is not in the model store {store}; put it there"
        for name, file in (("gone", "gone.mar"), ("x", "away.mar"))
    }


def test_placeholders_and_ts_variables_are_filled_in(tmp_path: Path) -> None:
    archive(tmp_path / "store-of-mine", "a")
    configure(tmp_path, "model_store=$$STORE$$", "enable_envvars_config=true")

    found = look(tmp_path, environment={"STORE": "store-of-mine", "TS_JOB_QUEUE_SIZE": "9"})

    assert found.properties["job_queue_size"] == "9"
    assert [model.name for model in found.models] == ["a"]


def test_the_largest_body_is_the_flags_else_the_configurations_else_torchserves(tmp_path: Path) -> None:
    archive(tmp_path / "model-store", "a")
    assert look(tmp_path).max_request_size == MAX_REQUEST

    configure(tmp_path, "max_request_size=1000")
    assert look(tmp_path).max_request_size == 1000
    assert look(tmp_path, limit=7).max_request_size == 7


def test_a_directory_with_model_files_needs_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    (tmp_path / "README.md").touch()

    assert look(tmp_path, limit=7) == ModelDirectory(
        (FileRequest("service", tmp_path / "model.pt"),), {"max_request_size": "7"}
    )


def test_a_directory_with_nothing_to_serve_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"There is no model in {tmp_path}: put config/config.properties and"):
        look(tmp_path)


def test_a_path_that_is_no_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        look(tmp_path / "missing")

    assert str(refused.value) == (
        f"{tmp_path}/missing is not a directory; give the folder with the models by the storageUri of the "
        "InferenceService, or by --model-dir if there is none."
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("load_models=b.mar", "b.mar is not in the model store"),
        ("models={", "config/config.properties: models is not valid JSON"),
        ("inference_address=https://0.0.0.0:8443", "asks for inference_address: https://0.0.0.0:8443, which would be"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, line: str, message: str) -> None:
    archive(tmp_path / "model-store", "a")
    configure(tmp_path, line)

    with pytest.raises(ConfigurationError) as raised:
        look(tmp_path)
    assert message in str(raised.value)


def test_two_archives_of_one_version_are_refused(tmp_path: Path) -> None:
    for file in ("x.mar", "y.mar"):
        write_mar(tmp_path / "model-store" / file, manifest(modelName="a"))

    with pytest.raises(ConfigurationError, match=r"Model a, version 1.0 is in two archives, x.mar and y.mar"):
        look(tmp_path)
