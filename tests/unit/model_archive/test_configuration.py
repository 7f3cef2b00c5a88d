"""Which archives a config.properties requests."""

from __future__ import annotations

import json

import pytest

from model_archive.configuration import Reference, requested_archives, select
from model_archive.errors import InvalidConfiguration

MODELS = '{"densenet": {"1.0": {"marName": "densenet_161.mar"}}, "mnist": {"1.0": {"marName": "mnist.mar"}}}'


def snapshot(models: object) -> dict[str, str]:
    return {"model_snapshot": json.dumps({"name": "startup.cfg", "modelCount": 1, "models": models})}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"load_models": " "}, None),
        ({"load_models": "all"}, None),
        ({"load_models": "ALL"}, None),
        (
            {"load_models": "a.mar, b=b.mar,"},
            (Reference("a.mar", "load_models"), Reference("b.mar", "load_models", "b")),
        ),
        (
            {"load_models": "m=https://host/m.mar?key=1,a.mar"},
            (Reference("https://host/m.mar?key=1", "load_models", "m"), Reference("a.mar", "load_models")),
        ),
        ({"load_models": "m=/mnt/models/model-store/m.mar"}, (Reference("m.mar", "load_models", "m"),)),
        ({"load_models": " m = m.mar , ,"}, (Reference("m.mar", "load_models", "m"),)),
        ({"models": MODELS, "load_models": "all"}, None),
        (
            {"models": MODELS},
            (
                Reference("densenet_161.mar", "models", "densenet", "1.0"),
                Reference("mnist.mar", "models", "mnist", "1.0"),
            ),
        ),
        ({"models": '{"m": {"1.0": {"minWorkers": 1}}}'}, None),
        (
            {"models": '{"m": {"1.0": {"minWorkers": 1}}}', "load_models": "m.mar"},
            (Reference("m.mar", "load_models"),),
        ),
        (
            snapshot({"bert": {"1.0": {"marName": "a.mar"}, "2.0": {"marName": "store/b.mar"}}}),
            (
                Reference("a.mar", "model_snapshot", "bert", "1.0"),
                Reference("b.mar", "model_snapshot", "bert", "2.0"),
            ),
        ),
        (
            {**snapshot({"bert": {"1.0": {"marName": "a.mar"}}}), "load_models": "ignored.mar"},
            (Reference("a.mar", "model_snapshot", "bert", "1.0"),),
        ),
        ({"model_snapshot": "", "load_models": "a.mar"}, (Reference("a.mar", "load_models"),)),
    ],
)
def test_the_archives_that_torchserve_loads(settings: dict[str, str], expected: tuple[Reference, ...] | None) -> None:
    assert requested_archives(settings) == expected


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
        (
            {"models": "{", "load_models": "all"},
            "models is not valid JSON (Expecting property name enclosed in double "
            "quotes near '{'); correct it, and end each line of a long value but the last with a backslash",
        ),
        (
            {"model_snapshot": "{}"},
            'model_snapshot names no model; write {"models": {NAME: {VERSION: {"marName": …}}}}',
        ),
        (snapshot({"bert": []}), "model bert in model_snapshot is not a JSON object; correct it"),
        (snapshot({"bert": {"1": []}}), "model bert, version 1 in model_snapshot is not a JSON object; correct it"),
        (snapshot({"bert": {"1.0": {}}}), 'model_snapshot has no "marName" for model bert, version 1.0; add it'),
        ({"models": '{"m": {"1": {"marName": 5}}}'}, 'models has no "marName" for model m, version 1; add it'),
        (
            {"models": '{"m": {"1": {"marName": "m.mar"}}, "n": {"1": {}}}'},
            'models has no "marName" for model n, version 1; add it, as others have one, or list the archives in '
            "load_models",
        ),
        (
            {"load_models": "flow.war"},
            "load_models names only flow.war; workflows are not served; name the .mar archives of its models, and call "
            "them from a transformer",
        ),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        requested_archives(settings)

    assert str(raised.value) == f"config/config.properties: {message}"


HERE, GONE = Reference("here.mar", "load_models"), Reference("gone.mar", "load_models")
FLOW = Reference("flow.war", "load_models")
REMOTE = Reference("https://host/m.mar", "load_models", "m")
SAVED, LOST = Reference("here.mar", "model_snapshot", "a", "1"), Reference("gone.mar", "model_snapshot", "b", "1")


@pytest.mark.parametrize(
    ("references", "served", "left_out"),
    [
        ([HERE, GONE], [HERE], [GONE]),
        ([GONE, REMOTE], [REMOTE], [GONE]),
        ([GONE], [GONE], []),
        ([FLOW, HERE], [HERE], [FLOW]),
        ([FLOW, GONE], [GONE], [FLOW]),
        ([SAVED, LOST], [SAVED, LOST], []),
        ([], [], []),
    ],
)
def test_workflows_and_archives_that_are_not_there_are_left_out_while_others_are(
    references: list[Reference], served: list[Reference], left_out: list[Reference]
) -> None:
    assert select(references, {"here.mar", "flow.war"}) == (served, left_out)
