"""Sources with models and no configuration: what is written for TorchServe, and that both runtimes serve it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import manifest, read_tree, write_mar, write_tar
from tests.support.runtimes import OURS, Runtime

CONFIG = "config/config.properties"
WROTE = f"wrote {CONFIG}, because the source has none: all archives in model-store are served"
ECHO = b"def handle(data, context):\n    return data\n"
LAYOUTS = pytest.mark.parametrize("layout", ["auto", "torchserve"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def write_echo(path: Path, name: str = "echo", version: str = "1.0") -> Path:
    return write_mar(path, manifest(modelName=name, modelVersion=version), {"handler.py": ECHO})


def save_script(path: Path) -> Path:
    """Twice each of three numbers, plus one."""
    from tests.support.torch_models import Affine, save_scripted

    return save_scripted(path, Affine())


# --- archives ----------------------------------------------------------------------------------------


@LAYOUTS
def test_archives_at_the_top_become_a_store_with_a_configuration(
    initialize: Initialize, source: Path, models: Path, layout: str
) -> None:
    write_echo(source / "a.mar")
    write_echo(source / "b.mar", "other", "2.0")
    (source / "README.md").write_text("hello")

    outcome = initialize(source, models, STORAGE_LAYOUT=layout)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[-6:-1] == [
        "moved a.mar into model-store",
        "moved b.mar into model-store",
        WROTE,
        "checked model-store/a.mar (all are loaded; model echo, version 1.0)",
        "checked model-store/b.mar (all are loaded; model other, version 2.0)",
    ]
    assert sorted(read_tree(models)) == ["README.md", CONFIG, "model-store/a.mar", "model-store/b.mar"]
    addresses = (
        "inference_address=http://127.0.0.1:8085\n"
        "management_address=http://127.0.0.1:8085\n"
        "metrics_address=http://127.0.0.1:8082\n"
        "grpc_inference_port=7070\n"
        "grpc_management_port=7071\n"
    )
    assert (models / CONFIG).read_text() == (
        "# Written by the storage-initializer, because the source has none.\n"
        + (addresses if layout == "torchserve" else "")
        + "enable_envvars_config=true\n"
        "install_py_dep_per_model=true\n"
        "model_store=model-store\n"
        "load_models=all\n"
    )


@LAYOUTS
@pytest.mark.parametrize("store", ["model-store", "mar-store"])
def test_a_store_alone_gets_a_configuration(
    initialize: Initialize, source: Path, models: Path, layout: str, store: str
) -> None:
    write_echo(source / store / "echo.mar")

    outcome = initialize(source, models, STORAGE_LAYOUT=layout)

    assert outcome.exit_code == 0
    assert sorted(read_tree(models)) == [CONFIG, f"{store}/echo.mar"]
    assert f"model_store={store}\n" in (models / CONFIG).read_text()


def test_an_archive_that_is_unpacked_is_one(initialize: Initialize, source: Path, models: Path) -> None:
    content = json.dumps(manifest(modelName="echo"))
    (source / "echo/MAR-INF").mkdir(parents=True)
    (source / "echo/MAR-INF/MANIFEST.json").write_text(content)
    (source / "echo/handler.py").write_bytes(ECHO)

    assert initialize(source, models).exit_code == 0
    assert sorted(read_tree(models)) == [
        CONFIG, "model-store/echo/MAR-INF/MANIFEST.json", "model-store/echo/handler.py",
    ]  # fmt: skip


def test_of_several_tars_at_the_top_those_with_a_manifest_are_archives(
    initialize: Initialize, source: Path, models: Path
) -> None:
    write_tar(source / "bert.tar.gz", tarfile.TarInfo("bert/handler.py"))
    with tarfile.open(source / "data.tar.gz", "w:gz") as data:
        data.addfile(tarfile.TarInfo("data/rows.csv"))
    (source / "text.tar.gz").write_text("hello")

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert sorted(read_tree(models)) == [CONFIG, "data.tar.gz", "model-store/bert.tar.gz", "text.tar.gz"]
    (left_out,) = [line for line in outcome.log if line.startswith("not served: ")]
    assert left_out.startswith("not served: text.tar.gz is truncated or not a tar.gz (")


def test_what_unpacks_to_an_archive_is_one(initialize: Initialize, source: Path, models: Path) -> None:
    write_tar(source / "bert.tar.gz", tarfile.TarInfo("bert/handler.py"))

    assert initialize(source / "bert.tar.gz", models, STORAGE_LAYOUT="torchserve").exit_code == 0
    assert sorted(read_tree(models)) == [
        CONFIG, "model-store/bert/MAR-INF/MANIFEST.json", "model-store/bert/handler.py",
    ]  # fmt: skip


def test_two_archives_of_one_name_are_told(initialize: Initialize, source: Path, models: Path) -> None:
    write_echo(source / "a.mar")
    write_echo(source / "model-store/a.mar", "other")

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (
        13,
        f"{source}: there are two archives a.mar, one of them in model-store; remove one",
    )


def test_two_archives_of_one_model_are_told(initialize: Initialize, source: Path, models: Path) -> None:
    write_echo(source / "a.mar")
    write_echo(source / "b.mar")

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (
        13,
        f"{source}: a.mar and b.mar in model-store both hold model echo, version 1.0; remove one of them",
    )


def test_a_misplaced_configuration_is_told_and_nothing_is_written(
    initialize: Initialize, source: Path, models: Path
) -> None:
    write_echo(source / "echo.mar")
    (source / "config.properties").write_text("load_models=all\n")

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert (outcome.exit_code, outcome.reason) == (
        13,
        f"{source}: there is no {CONFIG}; did you mean config.properties?",
    )


def test_without_a_layout_nothing_is_written(initialize: Initialize, source: Path, models: Path) -> None:
    write_echo(source / "echo.mar")

    assert initialize(source, models, STORAGE_LAYOUT="none").exit_code == 0
    assert list(read_tree(models)) == ["echo.mar"]


# --- models without an archive -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "embedding.pt2"])
def test_the_runtime_without_java_needs_nothing_for_a_bare_model(
    initialize: Initialize, source: Path, models: Path, name: str
) -> None:
    (source / name).write_bytes(b"weights")
    (source / f"._{name}").write_bytes(b"written beside it by macOS")

    outcome = initialize(source, models)

    assert outcome.exit_code == 0
    assert outcome.log[-2] == f"{name}: served without an archive, which needs no {CONFIG}"
    assert sorted(read_tree(models)) == [f"._{name}", name]


def test_a_model_file_beside_an_archive_is_named_as_not_served(
    initialize: Initialize, source: Path, models: Path
) -> None:
    write_echo(source / "echo.mar")
    (source / "net.onnx").write_bytes(b"model")

    outcome = initialize(source, models)

    assert outcome.exit_code == 0
    assert "not served: net.onnx: beside archives, only those are; move these into a folder of their own" in outcome.log


def test_the_runtime_without_java_serves_a_handler_with_its_weights_as_it_is(
    initialize: Initialize, source: Path, models: Path
) -> None:
    (source / "handler.py").write_text("def handle(data, context):\n    return data\n")
    (source / "model.pt").write_bytes(b"weights")

    outcome = initialize(source, models)

    assert outcome.exit_code == 0
    assert outcome.log[-2] == "served as it is, by its own handler"
    assert sorted(read_tree(models)) == ["handler.py", "model.pt"]


@pytest.mark.parametrize("name", ["embedding.pt", "embedding.pth", "embedding.ts"])
def test_torchserve_gets_an_archive_of_a_script(initialize: Initialize, source: Path, models: Path, name: str) -> None:
    script = save_script(source / name).read_bytes()

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert outcome.log[-4:-1] == [
        f"made model-store/embedding of {name}, with TorchServe's base_handler",
        WROTE,
        "checked model-store/embedding (all are loaded; model embedding, version 1.0)",
    ]
    assert sorted(read_tree(models)) == [
        CONFIG, "model-store/embedding/MAR-INF/MANIFEST.json", "model-store/embedding/embedding.pt",
    ]  # fmt: skip
    assert (models / "model-store/embedding/embedding.pt").read_bytes() == script


def test_two_scripts_of_one_name_are_refused(initialize: Initialize, source: Path, models: Path) -> None:
    for name in ("net.pt", "net.pth"):
        save_script(source / name)

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert (outcome.exit_code, outcome.reason) == (
        13, f"{source}: net.pth would have the same name as another model, net; rename one",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "weights.pt", "old.pt"])
def test_torchserve_cannot_serve_another_bare_model(
    initialize: Initialize, source: Path, models: Path, name: str
) -> None:
    import torch

    (source / name).write_bytes(b"\x80\x02}q\x00.")
    if name == "weights.pt":
        torch.save({"weight": torch.ones(2)}, source / name)

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert (outcome.exit_code, outcome.reason) == (
        13,
        f"{source}: TorchServe cannot serve {name} without an archive, since it is not TorchScript; take the runtime "
        "isvc-mar for ONNX and torch.export, or pack it and its handler with isvc pack",
    )


# --- both runtimes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OURS)
def test_a_runtime_serves_what_was_written(initialize: Initialize, source: Path, models: Path, kind: str) -> None:
    """An archive that was moved, and a script that was wrapped: one configuration serves both from one store."""
    write_echo(source / "archives/echo.mar")
    (source / "scripts").mkdir()
    save_script(source / "scripts/model.pth")
    for name in ("archives", "scripts"):
        assert initialize(source / name, models / name, STORAGE_LAYOUT="torchserve").exit_code == 0
    (models / "scripts/model-store/model").rename(models / "archives/model-store/model")
    assert (models / "scripts" / CONFIG).read_text() == (models / "archives" / CONFIG).read_text()

    with Runtime(kind, models / "archives", TS_DEFAULT_WORKERS_PER_MODEL="1") as runtime:
        runtime.wait_ready(["echo", "model"])

        assert runtime.predict("echo", {"instances": [1, 2]}).document == {"predictions": [1, 2]}
        assert runtime.predict("model", {"instances": [[1.5, 2, 0]]}).document == {"predictions": [[4, 5, 1]]}
