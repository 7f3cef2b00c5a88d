"""What each command prints for programs, as whole documents in `tests/golden/output`.

docs/commands/output.md shows them. A document is compared as it is printed; what differs from run to run is replaced
before: ports, times, folders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from isvc.commands import main
from tests.support.build_cache import ROOT

FOLDER = ROOT / "tests" / "golden" / "output"
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
_MILLISECONDS = re.compile(r'(?<="milliseconds": )[\d.]+')


@dataclass(frozen=True)
class OutputGoldens:
    """Runs commands, and compares what they print; or writes it, with `--rewrite-goldens`."""

    capsys: pytest.CaptureFixture[str]
    rewrites: bool

    def check(self, name: str, code: int, *arguments: str, changed: Mapping[str, str] | None = None) -> None:
        """The command ends with the code, and prints the golden; as YAML, it prints the same values."""
        replaced = changed or {}
        assert main([*arguments, "--output=json"]) == code, self.capsys.readouterr().err
        self.compare(name, self.capsys.readouterr().out, replaced)
        assert main([*arguments, "--output=yaml"]) == code
        same = json.dumps(yaml.safe_load(self.capsys.readouterr().out), indent=2, ensure_ascii=False)
        assert normalised(same, replaced) == self._read(name)

    def compare(self, name: str, printed: str, replaced: Mapping[str, str]) -> None:
        """The text is the golden."""
        text = normalised(printed, replaced)
        if self.rewrites:
            (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        assert text == self._read(name)

    def _read(self, name: str) -> str:
        return (FOLDER / f"{name}.json").read_text(encoding="utf-8").strip()


def normalised(text: str, replaced: Mapping[str, str]) -> str:
    """Return the text without what differs from run to run; ``replaced`` is what else does."""
    for found, instead in replaced.items():
        text = text.replace(found, instead)
    return _MILLISECONDS.sub("1.5", _PORT.sub("8080", text)).strip()


def output_goldens(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> OutputGoldens:
    """Return the goldens for a test."""
    flag: Any = request.config.getoption("--rewrite-goldens")
    return OutputGoldens(capsys, bool(flag))
