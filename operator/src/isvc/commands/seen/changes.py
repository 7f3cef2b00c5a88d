"""Services that are watched elsewhere than on a terminal: a line, or a document, for each change."""

from __future__ import annotations

from collections.abc import Sequence

from isvc.commands.output import OutputFormat, write_line, write_record
from isvc.commands.seen.lines import change
from isvc.commands.seen.reading import now, seen_now
from isvc.view.json_shape import as_json
from isvc.view.source import ServiceSource
from isvc_operator.manifests import ServiceKey


class ChangePrinter:
    """Prints each service when it looks different from when it was printed last."""

    def __init__(self, source: ServiceSource, output: OutputFormat) -> None:
        self._source = source
        self._output = output
        self._last: dict[ServiceKey, object] = {}

    def write(self, keys: Sequence[ServiceKey]) -> None:
        """Print what has changed of these services."""
        for key in keys:
            service = seen_now(self._source, key)
            if service is None:
                if self._last.pop(key, None) is not None:
                    self._gone(key)
                continue
            line = change(service, now())
            shown = [str(cell) for cell in line[1:]] if self._output is OutputFormat.TEXT else as_json(service)
            if self._last.get(key) == shown:
                continue
            self._last[key] = shown
            if self._output is OutputFormat.TEXT:
                write_line(*line)
            else:
                write_record(shown, self._output)

    def _gone(self, key: ServiceKey) -> None:
        if self._output is OutputFormat.TEXT:
            write_line(now().strftime("%H:%M:%S"), f"{key.namespace}/{key.name}", "deleted")
        else:
            write_record({"namespace": key.namespace, "name": key.name, "deleted": True}, self._output)
