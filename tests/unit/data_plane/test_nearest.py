"""What is suggested for a path or a name that leads nowhere."""

from __future__ import annotations

import pytest

from data_plane.nearest import nearest, nearest_path

TEMPLATES = (
    "/", "/v1/models", "/v1/models/{model}", "/v1/models/{model}:predict", "/v1/models/{model}:explain",
    "/v2/models/{model}/ready", "/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer",
    "/v2/health/ready", "/v2/health/live", "/v2/repository/index", "/predictions/{model}",
    "/predictions/{model}/{version}", "/predictions/{model}/{version}/{path*}", "/models/{model}/invoke",
    "/invocations", "/metrics",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/v1/model/bert:predict", "/v1/models/bert:predict"),
        ("/v1/models/bert/predict", "/v1/models/bert:predict"),
        ("/v2/models/bert/predict", "/v2/models/bert/infer"),
        ("/v2/models/bert:predict", "/v2/models/bert/infer"),
        ("/v1/models/bert:infer", "/v1/models/bert:predict"),
        ("/v1/models/bert/infer", "/v1/models/bert:predict"),
        ("/v2/models/bert:infer", "/v2/models/bert/infer"),
        ("/V1/models/models-2:prediction", "/v1/models/models-2:predict"),
        ("/v1//models/bert:predict", "/v1/models/bert:predict"),
        ("/prediction/bert", "/predictions/bert"),
        ("/invocation", "/invocations"),
        ("/v2/models/bert/version/1/infer", ""),
        ("/predict", ""),
        ("/nowhere", ""),
        ("/v1/model/" + "x" * 60_000, "/v1/models/" + "x" * 60_000),
        ("/v2/helth/live", "/v2/health/live"),
        ("/metric", "/metrics"),
        ("/v1/models" + "/x" * 30_000, ""),
    ],
)  # fmt: skip
def test_the_nearest_path_has_the_name_of_the_one_that_was_sent(path: str, near: str) -> None:
    assert nearest_path(path, TEMPLATES) == near


def test_where_there_are_no_paths_none_is_near() -> None:
    assert nearest_path("/metric", ()) == ""


@pytest.mark.parametrize(
    ("name", "near"), [("mnst", "mnist"), ("BERT", "bert"), ("x", ""), ("mnist" * 10_000, ""), ("", "")]
)
def test_the_nearest_name_is_found_whatever_its_case(name: str, near: str) -> None:
    assert nearest(name, ("bert", "mnist")) == near
