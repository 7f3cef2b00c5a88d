"""What a config.properties says: the pure half of the layout check."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from model_archive.configuration import Reference
from storage_initializer.layout import parse_settings, requested, store_below


def test_settings_are_latin_1_as_java_reads_them() -> None:
    assert parse_settings(b"model_store=caf\xe9") == {"model_store": "café"}


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
