"""Compares goldens, or rewrites them with `--rewrite-goldens`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.output_goldens import OutputGoldens, output_goldens
from tests.support.yaml_files import documents

Manifests = Sequence[dict[str, Any]]


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice, and list items under their key, as people write manifests."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[Path, Manifests], None]:
    """Compares manifests with a file of them, as objects; `--rewrite-goldens` writes the file instead."""

    def check(golden: Path, manifests: Manifests) -> None:
        if request.config.getoption("--rewrite-goldens"):
            golden.write_text(yaml.dump_all(manifests, Dumper=_PlainDumper, sort_keys=False, width=120))
        assert documents(golden) == list(manifests)

    return check


@pytest.fixture
def goldens(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> OutputGoldens:
    """What commands print for programs."""
    return output_goldens(request, capsys)
