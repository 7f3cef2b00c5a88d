"""The layout check on whole folders, through the command: what passes, and the line that says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import STORY_CONFIG, read_tree, write_mar, write_volume


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("config", "store"),
    [
        (STORY_CONFIG, "model-store"),
        (STORY_CONFIG, "mar-store"),
        (STORY_CONFIG.replace("model_store=model-store", "model_store=mar-store"), "mar-store"),
        (STORY_CONFIG.replace("model_store=model-store", "model_store=/mnt/models/model-store"), "model-store"),
        (STORY_CONFIG.replace("model_store=model-store", "model_store=/home/user/store"), "model-store"),
        (STORY_CONFIG.replace("model_store=model-store\n", ""), "mar-store"),
        ("load_models=all\n", "model-store"),
        ("load_models=bert=bert-model.mar\n", "model-store"),
        ("model_store=\nload_models=bert-model.mar\n", "model-store"),
        ("", "model-store"),
    ],
)
def test_a_users_folder_passes(initialize: Initialize, tmp_path: Path, models: Path, config: str, store: str) -> None:
    source = write_volume(tmp_path / "source", config, store)

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert f"checked {store}/bert-model.mar" in "\n".join(outcome.log)
    assert read_tree(models) == read_tree(source)


def test_several_archives_named_over_several_lines_pass(initialize: Initialize, tmp_path: Path, models: Path) -> None:
    config = (
        "models={\\\n"
        '  "densenet161": {"1.0": {"marName": "densenet_161.mar", "batchSize": 8}},\\\n'
        '  "mnist": {"1.0": {"marName": "mnist.mar"}}\\\n'
        "}\n"
    )
    source = write_volume(tmp_path / "source", config)
    write_mar(source / "model-store/densenet_161.mar")
    write_mar(source / "model-store/mnist.mar")

    outcome = initialize(source, models, STORAGE_LAYOUT="torchserve")

    assert outcome.exit_code == 0
    assert outcome.log[-3:-1] == [
        "checked model-store/densenet_161.mar (models, model densenet161, version 1.0)",
        "checked model-store/mnist.mar (models, model mnist, version 1.0)",
    ]


@pytest.mark.parametrize(
    ("layout", "code"),
    [("auto", 0), ("none", 0), ("torchserve", 13)],
)
def test_only_what_looks_like_torchserve_must_be_laid_out_so(
    initialize: Initialize, tmp_path: Path, models: Path, layout: str, code: int
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/model.safetensors").write_bytes(b"weights")

    assert initialize(tmp_path / "source", models, "--layout", layout).exit_code == code


def _store_without_archives(source: Path) -> None:
    (source / "config/config.properties").write_text("load_models=all")
    (source / "model-store/bert-model.mar").rename(source / "model-store/README.md")


MISLAID = {
    "the configuration at the top": (
        lambda source: (source / "config/config.properties").rename(source / "config.properties"),
        "there is no config/config.properties; did you mean config.properties?",
    ),
    "the configuration in another folder": (
        lambda source: (source / "config").rename(source / "conf"),
        "there is no config/config.properties; did you mean conf/config.properties?",
    ),
    "a store of another name": (
        lambda source: (source / "model-store").rename(source / "modelstore"),
        "there is no model store model-store; did you mean modelstore?",
    ),
    "a store without archives": (
        _store_without_archives, "model-store holds no archive; put the .mar files there",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("mislay", "complaint"), MISLAID.values(), ids=MISLAID)
def test_what_is_mislaid_is_named_and_nothing_is_copied(
    initialize: Initialize, tmp_path: Path, models: Path, mislay: Callable[[Path], object], complaint: str
) -> None:
    source = write_volume(tmp_path / "source")
    mislay(source)

    outcome = initialize(source, models, "--layout", "torchserve")

    assert (outcome.exit_code, outcome.reason) == (13, f"{source}: {complaint}")
    assert list(models.iterdir()) == []


def test_without_models_and_configuration_it_is_said_what_is_there(
    initialize: Initialize, tmp_path: Path, models: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/model.safetensors").write_bytes(b"weights")

    outcome = initialize(tmp_path / "source", models, "--layout", "torchserve")

    assert (outcome.exit_code, outcome.reason) == (
        13,
        f"{tmp_path}/source: there is no config/config.properties; there is model.safetensors",
    )


def test_an_archive_of_load_models_that_is_not_there_is_named_in_the_containers_status(
    initialize: Initialize, tmp_path: Path, models: Path
) -> None:
    source = write_volume(tmp_path / "source", "load_models=bert=bert-model.mar,gone=gone.mar")

    outcome = initialize(source, models)

    warning = (
        "config/config.properties names gone.mar (load_models), but model-store does not hold it; the others are served"
    )
    assert (outcome.exit_code, outcome.reason) == (0, warning)
    assert warning in outcome.log


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            STORY_CONFIG.replace("bert-model.mar", "bert-modl.mar"),
            "config/config.properties names bert-modl.mar (model_snapshot, model bert, version 1.0), "
            "but model-store does not hold it; did you mean bert-model.mar?",
        ),
        (
            "load_models=mnist.mar",
            "config/config.properties names mnist.mar (load_models), but model-store does not hold it; "
            "there is bert-model.mar",
        ),
        (
            'models={\n  "noop": {}\n}',
            "config/config.properties: models is not valid JSON "
            "(Expecting property name enclosed in double quotes near '{'); "
            "correct it, and end each line of a long value but the last with a backslash",
        ),
        (
            "model_store=\\u00g0",
            "config/config.properties is not a Java properties file (Invalid \\u escape sequence: \\u00g0); correct it",
        ),
        ("#" * (1 << 20) + "#", "config/config.properties is larger than 1 MiB; it should be a short text file"),
    ],
)
def test_a_wrong_configuration(
    initialize: Initialize, tmp_path: Path, models: Path, config: str, complaint: str
) -> None:
    source = write_volume(tmp_path / "source", config)

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (13, f"{source}: {complaint}")
    assert list(models.iterdir()) == []
