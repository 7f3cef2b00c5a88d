"""What the flags of all model servers take."""

from __future__ import annotations

import argparse

import pytest

from data_plane.limits import MAX_REQUEST_SIZE
from data_plane.model_server.options import FlagParser, add_common_flags
from transformer_sdk.kserve.flags import build_parser


def _of_runtimes() -> argparse.ArgumentParser:
    flags = FlagParser("a server", "", "", {"MODEL_DIR": "/mnt/models"})
    add_common_flags(flags, "server")
    return flags.parser


PARSERS = pytest.mark.parametrize(
    ("parser", "flag"), [(_of_runtimes(), "--max-request-size"), (build_parser(), "--max_request_size")]
)


@PARSERS
@pytest.mark.parametrize("size", [0, -1, MAX_REQUEST_SIZE + 1])
def test_a_size_that_no_request_can_have_is_refused(
    parser: argparse.ArgumentParser, flag: str, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        parser.parse_args([f"{flag}={size}"])

    assert raised.value.code == 2
    assert f"argument {flag}: {size} is not a whole number from 1 to 2147483647" in capsys.readouterr().err


@PARSERS
def test_the_largest_size_is_taken(parser: argparse.ArgumentParser, flag: str) -> None:
    assert parser.parse_args([f"{flag}={MAX_REQUEST_SIZE}"]).max_request_size == MAX_REQUEST_SIZE
