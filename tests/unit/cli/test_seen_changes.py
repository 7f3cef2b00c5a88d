"""What `isvc status -w` prints of each change where no terminal shows it in place."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from isvc_operator.cli.output import OutputFormat
from isvc_operator.cli.seen.changes import ChangePrinter
from isvc_operator.manifests import ServiceKey
from tests.support.related_objects import a_related


class Deleted:
    """A source whose service is gone at the second look."""

    def __init__(self) -> None:
        self._found = [a_related(), None]

    def related(self, _: ServiceKey) -> Any:
        return self._found.pop(0)


@pytest.mark.parametrize("output", [OutputFormat.JSON, OutputFormat.YAML])
def test_what_a_terminal_would_obey_is_escaped(output: OutputFormat, capsys: pytest.CaptureFixture[str]) -> None:
    source: Any = Deleted()
    changes, key = ChangePrinter(source, output), ServiceKey("team\u202e\x9b", "bert")

    changes.write([key])
    capsys.readouterr()
    changes.write([key])

    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert next(yaml.safe_load_all(printed)) == {"namespace": "team\u202e\x9b", "name": "bert", "deleted": True}
