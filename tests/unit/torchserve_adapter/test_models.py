"""Which models a configuration asks for, and what is wrong with an archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data_plane.model_server.errors import ConfigurationError
from tests.support.archives import build_archive
from tests.support.model_folder import manifest
from torchserve_compat.store.archives import Archive, read_store
from torchserve_compat.store.models import RequestedModel, requested_models, select

ARCHIVES = {"a.mar": Archive("a.mar", "first"), "b.mar": Archive("b.mar", "second")}
SNAPSHOT = json.dumps(
    {
        "models": {
            "bert": {"1.0": {"marName": "a.mar"}, "2.0": {"marName": "b.mar"}},
            "other": {"1.0": {"marName": "b.mar"}},
        }
    }
)


@pytest.mark.parametrize(
    ("properties", "models"),
    [
        ({"load_models": "all"}, (RequestedModel("first", "a.mar"), RequestedModel("second", "b.mar"))),
        ({"load_models": "ALL"}, (RequestedModel("first", "a.mar"), RequestedModel("second", "b.mar"))),
        ({"load_models": "b.mar"}, (RequestedModel("second", "b.mar"),)),
        ({"load_models": "x=b.mar, a.mar,"}, (RequestedModel("x", "b.mar"), RequestedModel("first", "a.mar"))),
        ({"load_models": "x=model-store/b.mar"}, (RequestedModel("x", "b.mar"),)),
        ({"load_models": "x=https://host/x.mar"}, (RequestedModel("x", "https://host/x.mar"),)),
        (
            {"load_models": "all", "model_snapshot": SNAPSHOT},
            (RequestedModel("bert", "a.mar, b.mar"), RequestedModel("other", "b.mar")),
        ),
    ],
)
def test_models_come_from_the_snapshot_else_from_load_models(
    properties: dict[str, str], models: tuple[RequestedModel, ...]
) -> None:
    assert requested_models(properties, ARCHIVES, "/store") == models


@pytest.mark.parametrize(
    ("load_models", "selected", "missing"),
    [
        ("all", "all", ()),
        ("a.mar,x=b.mar", "a.mar,x=b.mar", ()),
        ("gone.mar, x=b.mar,y=store/away.mar", "x=b.mar", ("gone", "y")),
        ("gone.mar,x=https://host/x.mar", "x=https://host/x.mar", ("gone",)),
        ("gone.mar", "gone.mar", ()),
        ("", "", ()),
    ],
)
def test_archives_that_are_not_there_are_left_out_while_others_are(
    load_models: str, selected: str, missing: tuple[str, ...]
) -> None:
    selection = select(load_models, ARCHIVES, "/store")

    assert (selection.load_models, tuple(selection.missing)) == (selected, missing)


@pytest.mark.parametrize(
    ("load_models", "archives", "message"),
    [
        ("c.mar", ARCHIVES, "^c.mar is not in the model store /store, which holds a.mar, b.mar"),
        ("x=c.mar", {}, "^model x: c.mar is not in the model store /store, which holds nothing"),
        ("all", {}, "^There is no archive in the model store /store"),
        ("a.mar", {"a.mar": Archive("a.mar", "", "/store/a.mar is broken")}, "^/store/a.mar is broken"),
        ("https://host/x.mar", ARCHIVES, "is not in the model store"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named(load_models: str, archives: dict[str, Archive], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        requested_models({"load_models": load_models}, archives, "/store")


def test_a_snapshot_is_served_whole_or_not_at_all() -> None:
    properties = {
        "model_snapshot": json.dumps(
            {"models": {"a": {"1.0": {"marName": "a.mar"}}, "b": {"1.0": {"marName": "c.mar"}}}}
        )
    }

    with pytest.raises(ConfigurationError, match=r"^model b: c\.mar is not in the model store /store"):
        requested_models(properties, ARCHIVES, "/store")


@pytest.mark.process
def test_a_store_is_read_by_its_manifests(tmp_path: Path) -> None:
    build_archive(tmp_path, "b.mar", "", model_name="named")
    (tmp_path / "folder" / "MAR-INF").mkdir(parents=True)
    (tmp_path / "folder" / "MAR-INF" / "MANIFEST.json").write_text(json.dumps(manifest(modelName="unpacked")))
    build_archive(tmp_path, "c.tar.gz", "")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".hidden.mar").touch()

    assert read_store(tmp_path) == {
        "b.mar": Archive("b.mar", "named", handler="handler.py"),
        "c.tar.gz": Archive("c.tar.gz", "c", handler="handler.py"),
        "folder": Archive("folder", "unpacked", handler="handler.py"),
    }
