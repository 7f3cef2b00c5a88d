"""Which objects a URI means, and that they arrive as they are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import packed_zip, read_tree

MODEL = {"config.json": b"{}", "weights/1.bin": b"one", "weights/2.bin": b"two"}
NEIGHBOURS = {
    "model-hf/config.json": b"of another model",
    "model.bin": b"another file",
    "models/config.json": b"yet another",
    "a/model/config.json": b"deeper",
}
ODD_NAMES = [
    "Modell für Österreich.bin", "模型/权重.bin", "🤗.bin", "two  spaces.bin", "50%.bin", "a%2Fb.bin", "a+b.bin",
    "a#b.bin", "a?b=c&d.bin", "[v1]*{2}.bin", "it's \"quoted\".bin", "semi;colon,comma.bin", "~tilde^|`.bin",
    "..dots..bin", ".hidden", "=equals@at!.bin", "back\\slash.bin", "x" * 200,
]  # fmt: skip


def below(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


@pytest.mark.parametrize("path", ["model", "model/"])
def test_a_prefix_ends_at_a_slash(initialize: Initialize, store: Store, models: Path, path: str) -> None:
    uri = store.fill({**below("model", MODEL), **NEIGHBOURS})

    outcome = initialize(f"{uri}/{path}", models, **store.environment())

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == MODEL


@pytest.mark.parametrize("path", ["", "/"])
def test_a_bucket_is_a_folder_too(initialize: Initialize, store: Store, models: Path, path: str) -> None:
    uri = store.fill(MODEL)

    assert initialize(uri + path, models, **store.environment()).exit_code == 0
    assert read_tree(models) == MODEL


def test_an_object_arrives_under_its_own_name(initialize: Initialize, store: Store, models: Path) -> None:
    uri = store.fill({"a/weights.bin": b"w", "a/weights.bin.old": b"o", "a/weights": b"x"})

    assert initialize(f"{uri}/a/weights.bin", models, **store.environment()).exit_code == 0
    assert read_tree(models) == {"weights.bin": b"w"}


def test_each_pair_has_its_own_target(initialize: Initialize, store: Store, models: Path) -> None:
    uri = store.fill({**below("base", MODEL), "adapter/lora.bin": b"lora"})

    outcome = initialize(f"{uri}/base", models / "base", f"{uri}/adapter", models / "adapter", **store.environment())

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {**below("base", MODEL), "adapter/lora.bin": b"lora"}


@pytest.mark.parametrize("path", ["model", "model/__init__.py"])
def test_objects_without_content_alone_are_no_model(
    initialize: Initialize, store: Store, models: Path, path: str
) -> None:
    uri = store.fill({"model/__init__.py": b"", "model/1/_SUCCESS": b""})

    outcome = initialize(f"{uri}/{path}", models, **store.environment())

    assert (outcome.exit_code, outcome.reason) == (
        6,
        f"{uri}/{path}: there is nothing in its files (0 bytes); put the model there again",
    )
    assert read_tree(models) == {}


def test_an_object_without_content_beside_an_archive_does_not_keep_it_packed(
    initialize: Initialize, store: Store, models: Path
) -> None:
    uri = store.fill({"model/_SUCCESS": b"", "model/bert.zip": packed_zip({"config.json": b"{}"})})

    outcome = initialize(f"{uri}/model", models, **store.environment())

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"config.json": b"{}"}


def test_odd_names_stay_as_they_are(initialize: Initialize, store: Store, models: Path) -> None:
    files = {name: name.encode() for name in ODD_NAMES}
    uri = store.fill(below("odd", files))

    outcome = initialize(f"{uri}/odd", models, **store.environment())

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == files


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_name_is_found_by_itself(initialize: Initialize, bucket: Store, models: Path, name: str) -> None:
    uri = bucket.fill({f"odd/{name}": b"content"})

    outcome = initialize(f"{uri}/odd/{name}", models, **bucket.environment())

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {name.rpartition("/")[2]: b"content"}


def test_empty_objects_arrive(initialize: Initialize, store: Store, models: Path) -> None:
    files = {"__init__.py": b"", "handler.py": b"pass"}
    uri = store.fill(below("model", files))

    assert initialize(f"{uri}/model", models, **store.environment()).exit_code == 0
    assert read_tree(models) == files


def test_a_listing_of_several_pages_is_read_to_its_end(initialize: Initialize, store: Store, models: Path) -> None:
    files = {f"{number % 7}/{number}.txt": str(number).encode() for number in range(1100)}
    uri = store.fill(below("many", files))

    assert initialize(f"{uri}/many", models, **store.environment()).exit_code == 0
    assert read_tree(models) == files


def test_a_big_object_arrives_byte_for_byte(initialize: Initialize, store: Store, models: Path) -> None:
    """Of a size that no part of it divides."""
    content = random.Random(0).randbytes((40 << 20) + 1)
    uri = store.fill({"model/weights.bin": content})

    assert initialize(f"{uri}/model", models, **store.environment()).exit_code == 0
    assert (models / "weights.bin").read_bytes() == content
