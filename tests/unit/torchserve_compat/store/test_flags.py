"""TorchServe's flags are its settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import pytest

from torchserve_compat.store.flags import add_torchserve_flags, settings_of


def settings(*arguments: str) -> Mapping[str, str]:
    parser = argparse.ArgumentParser()
    add_torchserve_flags(parser)
    return settings_of(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {}),
        (["--models", "bert=bert.mar", "mnist.mar"], {"load_models": "bert=bert.mar,mnist.mar"}),
        (["--models=all"], {"load_models": "all"}),
        (["--enable-model-api"], {"enable_model_api": "true"}),
        (["--disable-token-auth"], {"disable_token_authorization": "true"}),
        (["--dt"], {"disable_token_authorization": "true"}),
        (["--start", "--foreground", "--ncs"], {}),
        (["--no-config-snapshots"], {}),
    ],
)
def test_a_flag_is_the_setting_of_its_name(arguments: list[str], expected: Mapping[str, str]) -> None:
    assert settings(*arguments) == expected
