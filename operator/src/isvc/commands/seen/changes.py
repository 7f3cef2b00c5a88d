"""Services that are watched elsewhere than on a terminal: a line, or a document, for each change."""

from __future__ import annotations

from collections.abc import Sequence

from isvc.commands.output import OutputFormat, write_line, write_record
from isvc.commands.seen.lines import change
from isvc.commands.seen.reading import now, seen_in
from isvc.view.json_shape import as_json
from isvc.view.source import ServiceSource
from isvc_operator.manifests import ServiceKey


class ChangePrinter:
    """Prints each service when it looks different from when it was printed last."""

    def __init__(self, source: ServiceSource, output: OutputFormat) -> None:
        self._source = source
        self._output = output
        self._last: dict[ServiceKey, dict[str, object]] = {}  # by the URLs of runs

    def write(self, keys: Sequence[ServiceKey]) -> None:
        """Print what has changed of these services."""
        for key in keys:
            last, found = self._last.setdefault(key, {}), seen_in(self._source, key)
            for run in sorted(last.keys() - found.keys()):
                del last[run]
                self._gone(key, run)
            for run, service in found.items():
                line = change(service, now())
                shown = [str(cell) for cell in line[1:]] if self._output is OutputFormat.TEXT else as_json(service)
                if last.get(run) == shown:
                    continue
                last[run] = shown
                if self._output is OutputFormat.TEXT:
                    write_line(*line)
                else:
                    write_record(shown, self._output)

    def _gone(self, key: ServiceKey, run: str) -> None:
        if self._output is OutputFormat.TEXT:
            write_line(now().strftime("%H:%M:%S"), f"{key.namespace}/{key.name}", "deleted", *([run] if run else []))
        else:
            where = {"run": run} if run else {}
            write_record({"namespace": key.namespace, "name": key.name, **where, "deleted": True}, self._output)
