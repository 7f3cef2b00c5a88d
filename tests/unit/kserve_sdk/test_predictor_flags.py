"""How programs are told of their predictor: by flags, by a config, and by attributes as models of older SDKs are."""

from __future__ import annotations

import pytest

from transformer_sdk.kserve import PredictorConfig, flags


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
