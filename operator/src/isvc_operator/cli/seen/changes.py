"""Services that are watched elsewhere than on a terminal: a line, or a document, for each change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from isvc_operator.cli.output import Output, write_data, write_line
from isvc_operator.cli.seen.lines import change
from isvc_operator.cli.seen.reading import now
from isvc_operator.manifests import ServiceKey
from isvc_operator.view.json_shape import as_json
from isvc_operator.view.service import view_of
from isvc_operator.view.source import ServiceSource


class Changes:
    """Prints each service when it looks different from when it was printed last."""

    def __init__(self, source: ServiceSource, output: Output) -> None:
        self._source = source
        self._output = output
        self._last: dict[ServiceKey, object] = {}

    def write(self, keys: Sequence[ServiceKey]) -> None:
        """Print what has changed of these services."""
        for key in keys:
            related = self._source.related(key)
            if related is None:
                if self._last.pop(key, None) is not None:
                    self._gone(key)
                continue
            service = view_of(related)
            line = change(service, now())
            shown = [str(cell) for cell in line[1:]] if self._output is Output.TEXT else as_json(service)
            if self._last.get(key) == shown:
                continue
            self._last[key] = shown
            if self._output is Output.TEXT:
                write_line(*line)
            else:
                self._document(shown)

    def _gone(self, key: ServiceKey) -> None:
        if self._output is Output.TEXT:
            write_line(now().strftime("%H:%M:%S"), f"{key.namespace}/{key.name}", "deleted")
        else:
            self._document({"namespace": key.namespace, "name": key.name, "deleted": True})

    def _document(self, value: Any) -> None:
        """Print a line of JSON, or a document of YAML."""
        if self._output is Output.JSON:
            click.echo(json.dumps(value))
        else:
            click.echo("---")
            write_data(value, self._output)
