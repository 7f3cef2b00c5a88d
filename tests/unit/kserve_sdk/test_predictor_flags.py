"""How models are told of their predictor: by flags, by a config, and by attributes, as models of older SDKs are."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from transformer_sdk.kserve import Model, PredictorConfig, flags


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ([], "v1"),
        (["--protocol=v2"], "v2"),
        (["--predictor_protocol=grpc-v2"], "grpc-v2"),
        (["--protocol=v2", "--predictor_protocol=v1"], "v1"),
    ],
    ids=["neither", "the old name", "the new name", "both"],
)
def test_programs_read_the_predictors_protocol_by_its_old_name_and_its_new_one(given: list[str], protocol: str) -> None:
    args = flags.build_parser().parse_args([*given, "--predictor_host=h"])

    assert (args.protocol, args.predictor_protocol) == (protocol, protocol)
    assert flags.predictor_config(args).protocol == protocol


def test_a_config_without_a_protocol_is_of_v1() -> None:
    assert PredictorConfig("h", None).protocol == "v1"


OWN = PredictorConfig("own", "v2", True, 5, 1, True)


@pytest.mark.parametrize(
    ("make", "config", "with_headers"),
    [
        (lambda: Model("m", OWN), OWN, False),
        (lambda: Model("m", OWN, True), OWN, True),
        (lambda: Model("m", OWN, return_response_headers=True), OWN, True),
        (lambda: Model("m", None, True), None, True),
        (lambda: Model("m", True), None, True),
        (lambda: Model("m", True, predictor_config=OWN), OWN, True),
    ],
    ids=["a config", "a config and headers", "headers by name", "no config and headers", "headers", "both by name"],
)
def test_a_model_takes_its_config_and_response_headers_where_each_sdk_has_them(
    make: Callable[[], Model], config: PredictorConfig | None, with_headers: bool
) -> None:
    model = make()

    assert (model.predictor_config, model.required_response_headers) == (config, with_headers)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, PredictorConfig("own", "v2", True, 5, 1, True)),
        ({"predictor_host": "own"}, PredictorConfig("own", "v2", True, 5, 1, True)),
        ({"predictor_host": "own", "protocol": "v1"}, PredictorConfig("own", "v1", True, 5, 1, True)),
        ({"predictor_host": "other", "timeout": 7}, PredictorConfig("other", "v2", True, 7, 1, True)),
        ({"predictor_host": "own", "use_ssl": False}, PredictorConfig("own", "v2", False, 5, 1, True)),
        ({"predictor_host": None, "protocol": None}, PredictorConfig("own", "v2", True, 5, 1, True)),
    ],
    ids=["none", "the same host", "a protocol", "another host", "no TLS", "None"],
)
def test_old_attributes_count_each_by_itself(attributes: dict[str, Any], expected: PredictorConfig) -> None:
    model = Model("m", OWN)
    for name, value in attributes.items():
        setattr(model, name, value)

    assert vars(model.predictor_config) == vars(expected)
    assert (model.predictor_host, model.protocol, model.use_ssl, model.timeout) == (
        expected.predictor_host, expected.protocol, expected.use_ssl, expected.timeout,
    )  # fmt: skip


def test_without_a_host_of_its_own_such_names_are_the_models_for_whatever_it_likes() -> None:
    model = Model("m", OWN)
    model.protocol, model.timeout = "amqp", 0.1

    assert (model.predictor_config, model.protocol, model.timeout) == (OWN, "amqp", 0.1)


def test_without_any_config_old_attributes_are_a_whole_one() -> None:
    def of_host() -> PredictorConfig | None:
        model = Model("m")
        model.predictor_host = "h"
        return model.predictor_config

    assert vars(contextvars.Context().run(of_host)) == vars(PredictorConfig("h"))
