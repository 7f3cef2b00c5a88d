"""Every flag of a server is taken from its environment variable, too, and the READMEs of the runtimes have both."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

import mar_runtime.cli
import torchserve_adapter.__main__
from data_plane.model_server import options
from tests.support.source_tree import ROOT

PARSERS = {"mar": mar_runtime.cli.build_parser, "torchserve": torchserve_adapter.__main__.build_parser}
# A text that each type of flag takes, and another one.
TEXTS = {
    str: ("a", "b"), Path: ("a", "b"), options.absolute: ("a", "b"), options.level: ("DEBUG", "ERROR"),
    int: ("7", "8"), options.positive: ("7", "8"), options.port: ("7", "8"), options.request_size: ("7", "8"),
    options.seconds: ("1.5", "2.5"),
}  # fmt: skip


def of_server(runtime: str) -> dict[str, tuple[str, argparse.Action]]:
    """The variable and the action of each flag; TorchServe's own flags have no variable."""
    actions = PARSERS[runtime]({})._actions
    found = ((action, re.search(r"\(env (\w+),", action.help or "")) for action in actions)
    return {action.option_strings[-1]: (variable[1], action) for action, variable in found if variable}


@pytest.mark.parametrize("runtime", PARSERS)
def test_the_readme_of_a_runtime_has_all_flags_of_its_server(runtime: str) -> None:
    readme = (ROOT / "runtime-images" / runtime / "README.md").read_text()

    assert dict(re.findall(r"^\| `(--[\w-]+)` \| `(\w+)`", readme, re.MULTILINE)) == {
        flag: variable for flag, (variable, _) in of_server(runtime).items()
    }


@pytest.mark.parametrize(("runtime", "flag"), [(runtime, flag) for runtime in PARSERS for flag in of_server(runtime)])
def test_every_variable_is_taken_and_a_flag_wins(runtime: str, flag: str) -> None:
    variable, action = of_server(runtime)[flag]
    kind: Any = action.type
    by_variable, by_flag = TEXTS[kind]
    parser = PARSERS[runtime]({"MODEL_DIR": "m", variable: by_variable})

    assert vars(parser.parse_args([]))[action.dest] == kind(by_variable)
    assert vars(parser.parse_args([flag, by_flag]))[action.dest] == kind(by_flag)
