"""The READMEs of the runtimes have all flags of their servers, with their environment variables."""

from __future__ import annotations

import argparse
import re

import pytest

import mar_runtime.cli
import torchserve_adapter.__main__
from tests.support.source_tree import ROOT

PARSERS = {
    "mar": mar_runtime.cli.build_parser({}),
    "torchserve": torchserve_adapter.__main__.build_parser({}),
}


def of_server(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The variable of each flag; TorchServe's own flags have none."""
    found = ((action.option_strings[-1], re.search(r"\(env (\w+),", action.help or "")) for action in parser._actions)
    return {flag: variable[1] for flag, variable in found if variable}


@pytest.mark.parametrize("runtime", PARSERS)
def test_the_readme_of_a_runtime_has_all_flags_of_its_server(runtime: str) -> None:
    readme = (ROOT / "runtime-images" / runtime / "README.md").read_text()

    assert dict(re.findall(r"^\| `(--[\w-]+)` \| `(\w+)`", readme, re.MULTILINE)) == of_server(PARSERS[runtime])
