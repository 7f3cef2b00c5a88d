"""What a config.properties names: the pure half of the layout check."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from storage_initializer.errors import LayoutError
from storage_initializer.layout import Reference, named_archives, parse_settings, store_below
from tests.support.model_folder import STORY_CONFIG

MODELS = '{"densenet": {"1.0": {"marName": "densenet_161.mar"}}, "mnist": {"1.0": {"marName": "mnist.mar"}}}'


def snapshot(models: object) -> dict[str, str]:
    return {"model_snapshot": json.dumps({"name": "startup.cfg", "modelCount": 1, "models": models})}


def test_the_storys_settings_name_its_archive() -> None:
    settings = parse_settings(STORY_CONFIG.encode())

    assert named_archives(settings) == [Reference("bert-model.mar", "model_snapshot, model bert, version 1.0")]


def test_continuation_lines_escapes_and_comments_are_javas() -> None:
    text = """
# a comment
! another
model_store : model\\u002dstore
models={\\
  "noop": {\\
    "1.0": {"marName": "no\\=op.mar"}\\
  }\\
}
load_models all
"""

    assert parse_settings(text.encode()) == {
        "model_store": "model-store",
        "models": '{"noop": {"1.0": {"marName": "no=op.mar"}}}',
        "load_models": "all",
    }


def test_settings_are_latin_1_as_java_reads_them() -> None:
    assert parse_settings(b"model_store=caf\xe9") == {"model_store": "café"}


def test_a_broken_escape_is_no_properties_file() -> None:
    with pytest.raises(LayoutError) as raised:
        parse_settings(b"key=\\u12")

    assert str(raised.value) == (
        "config/config.properties is not a Java properties file (Invalid \\u escape sequence: \\u12); correct it"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"load_models": "all"}, []),
        ({"load_models": "ALL"}, []),
        ({"load_models": "a.mar, b=b.mar"}, [Reference("a.mar", "load_models"), Reference("b.mar", "load_models")]),
        ({"load_models": "m=https://host/m.mar,a.mar"}, [Reference("a.mar", "load_models")]),
        ({"load_models": "m=/mnt/models/model-store/m.mar"}, [Reference("m.mar", "load_models")]),
        (
            {"models": MODELS, "load_models": "all"},
            [
                Reference("densenet_161.mar", "models, model densenet, version 1.0"),
                Reference("mnist.mar", "models, model mnist, version 1.0"),
            ],
        ),
        (
            snapshot({"bert": {"1.0": {"marName": "a.mar"}, "2.0": {"marName": "b.mar"}}}),
            [
                Reference("a.mar", "model_snapshot, model bert, version 1.0"),
                Reference("b.mar", "model_snapshot, model bert, version 2.0"),
            ],
        ),
        ({**snapshot({}), "load_models": "ignored.mar"}, []),
        ({"models": '{"m": {"1.0": {"minWorkers": 1}}}', "load_models": "m.mar"}, [Reference("m.mar", "load_models")]),
        ({"load_models": "$$MODELS$$"}, []),
        ({"models": "{$$MODELS$$}"}, []),
    ],
)
def test_the_archives_that_torchserve_will_load(settings: dict[str, str], expected: list[Reference]) -> None:
    assert named_archives(settings) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"models": '{"bert": {"1.0": {"marName": "a.mar" "minWorkers": 1}}}'},
            """models is not valid JSON (Expecting ',' delimiter near '{"marName": "a.mar" "minWorkers": 1}}}'); """
            "correct it, and end each line of a long value but the last with a backslash",
        ),
        (
            {"models": "{"},
            "models is not valid JSON (Expecting property name enclosed in double quotes near '{'); "
            "correct it, and end each line of a long value but the last with a backslash",
        ),
        ({"models": "[" * 100_000}, "models is nested too deep; correct it"),
        ({"models": "[]"}, "models is not a JSON object; correct it"),
        ({"model_snapshot": "{}"}, "models in model_snapshot is not a JSON object; correct it"),
        (snapshot({"bert": []}), "model bert in model_snapshot is not a JSON object; correct it"),
        (snapshot({"bert": {"1": []}}), "model bert, version 1 in model_snapshot is not a JSON object; correct it"),
        (snapshot({"bert": {"1.0": {}}}), 'model_snapshot has no "marName" for model bert, version 1.0; add it'),
        ({"models": '{"m": {"1": {"marName": 5}}}'}, 'models has no "marName" for model m, version 1; add it'),
    ],
)  # fmt: skip
def test_a_broken_setting_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(LayoutError) as raised:
        named_archives(settings)

    assert str(raised.value) == f"config/config.properties: {message}"


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("model-store", "model-store"),
        ("./model-store/", "model-store"),
        ("/mnt/models/model-store", "model-store"),
        ("/srv/models/mar-store", "mar-store"),
        ("/home/model-server/model-store", None),
        ("../model-store", None),
    ],
)
def test_a_model_store_is_found_below_the_models_folder(configured: str, expected: str | None) -> None:
    assert store_below(configured, PurePosixPath("/srv/models")) == (expected and PurePosixPath(expected))
