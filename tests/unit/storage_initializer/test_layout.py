"""What a config.properties says: the pure half of the layout check."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from model_archive.configuration import Reference
from storage_initializer.errors import LayoutError
from storage_initializer.layout import parse_settings, requested, store_below


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
        ({"load_models": "$$MODELS$$"}, None),
        ({"models": "{$$MODELS$$}"}, None),
        ({"model_snapshot": "$$MODELS$$", "load_models": "a.mar"}, (Reference("a.mar", "load_models"),)),
    ],
)
def test_what_the_servers_environment_fills_in_counts_as_unset(
    settings: dict[str, str], expected: tuple[Reference, ...] | None
) -> None:
    assert requested(settings) == expected


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
