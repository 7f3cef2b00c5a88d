"""Which versions of which models a configuration asks for."""

from __future__ import annotations

import json

import pytest

from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store.archives import Archive
from torchserve_compat.store.versions import ModelVersion, default_first, requested_versions, without_effect

STORE = {
    "a.mar": Archive("a.mar", "bert", model_version="2.0"),
    "b.mar": Archive("b.mar", "bert", model_version="10.0"),
}


def test_all_archives_are_versions_of_their_models_and_the_highest_is_the_default() -> None:
    assert requested_versions({"load_models": "all"}, STORE, "/store") == (
        ModelVersion("bert", "2.0", "a.mar", is_default=False),
        ModelVersion("bert", "10.0", "b.mar", is_default=True),
    )


@pytest.mark.parametrize(
    ("properties", "in_order"),
    [
        ({"load_models": "all"}, "bert=b.mar,bert=a.mar"),
        ({"load_models": "bert=a.mar, bert=b.mar"}, "bert=a.mar,bert=b.mar"),
        ({"load_models": "b.mar,a.mar,mine=a.mar"}, "bert=b.mar,mine=a.mar,bert=a.mar"),
        (
            {"load_models": "all", "models": '{"bert": {"2.0": {"marName": "a.mar", "defaultVersion": true}}}'},
            "bert=a.mar,bert=b.mar",
        ),
        (
            {"load_models": "b.mar,a.mar", "models": '{"bert": {"2.0": {"defaultVersion": true}}}'},
            "bert=a.mar,bert=b.mar",
        ),
    ],
)
def test_the_declared_version_is_the_default_or_the_first_listed_or_the_highest(
    properties: dict[str, str], in_order: str
) -> None:
    assert default_first(properties, STORE) == in_order
    defaults = [
        f"{one.name}={one.archive}" for one in requested_versions(properties, STORE, "/store") if one.is_default
    ]
    assert set(in_order.split(",")[: len(defaults)]) == set(defaults)


@pytest.mark.parametrize(
    ("value", "is_default"),
    [(True, True), ("True", True), (False, False), ("false", False), ("yes", False), (1, False)],
)
def test_a_version_is_the_default_where_java_reads_true(value: object, is_default: bool) -> None:
    models = json.dumps({"bert": {"2.0": {"defaultVersion": value}}})

    (first, second) = requested_versions({"load_models": "b.mar,a.mar", "models": models}, STORE, "/store")

    assert (first.is_default, second.is_default) == (not is_default, is_default)


@pytest.mark.parametrize(
    ("load_models", "words"),
    [
        ("a.mar,b.mar,a.mar", "Model bert is asked for twice from a.mar; name it once."),
        ("x=c.mar,x=d.mar", "Model x, version 1.0 is in two archives, c.mar and d.mar; give one of them another"),
    ],
)
def test_a_version_that_is_there_twice_is_refused(load_models: str, words: str) -> None:
    store = {**STORE, "c.mar": Archive("c.mar", "c"), "d.mar": Archive("d.mar", "d")}

    for read in (default_first, lambda *given: requested_versions(*given, "/store")):
        with pytest.raises(ConfigurationError, match=words):
            read({"load_models": load_models}, store)


def test_a_model_goes_by_the_name_and_the_parameters_of_the_configuration() -> None:
    properties = {"load_models": "mine=a.mar", "models": '{"mine": {"2.0": {"marName": "a.mar", "batchSize": 4}}}'}

    assert requested_versions(properties, STORE, "/store") == (
        ModelVersion("mine", "2.0", "a.mar", is_default=True, parameters={"marName": "a.mar", "batchSize": 4}),
    )


def test_a_snapshots_version_is_the_archives_whatever_the_snapshot_calls_it() -> None:
    properties = {"model_snapshot": '{"models": {"mine": {"7.0": {"marName": "a.mar", "batchSize": 4}}}}'}

    assert requested_versions(properties, STORE, "/store") == (
        ModelVersion("mine", "2.0", "a.mar", is_default=True, parameters={"marName": "a.mar", "batchSize": 4}),
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"load_models": "mine=https://host/y.mar"},
        {"model_snapshot": '{"models": {"mine": {"1.0": {"marName": "https://host/y.mar"}}}}'},
    ],
)
def test_an_archive_that_only_torchserve_would_fetch_is_named(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"Model mine: download https://host/y\.mar and put it into the store"):
        requested_versions(properties, STORE, "/store")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"load_models": "all", "models": '{"bert": {"2.0": {"minWorkers": 3}}}'}, []),
        ({"load_models": "mine=a.mar", "models": '{"mine": {"2.0": {"minWorkers": 3}}}'}, []),
        ({"load_models": "a.mar", "models": '{"bert": {"10.0": {"minWorkers": 3}}}'}, []),  # a client may load it
        (
            {"load_models": "all", "models": '{"bert": {"1.0": {"minWorkers": 3}}}'},
            ["models: what it says of bert, version 1.0, has no effect: the store has none; its version is 10.0, 2.0"],
        ),
        (
            {"load_models": "all", "models": '{"brt": {"2.0": {"minWorkers": 3}}}'},
            [
                "models: what it says of brt, version 2.0, has no effect: the store has none; it has no model of this "
                "name"
            ],
        ),
    ],
    ids=["served", "renamed", "in the store", "another version", "another name"],
)
def test_parameters_for_what_is_not_there_are_said_to_have_no_effect(
    properties: dict[str, str], said: list[str]
) -> None:
    assert list(without_effect(properties, STORE)) == said
