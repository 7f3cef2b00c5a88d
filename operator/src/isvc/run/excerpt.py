"""What is printed of a container's lines, unless all are asked for: what people have to know, and each thing once.

All lines are in its log, for ``isvc logs`` and the dashboard.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from isvc.limits import HELD_LINES, REPEATED_LINES
from isvc.run.errors import RunFailed
from isvc.run.output import Output
from isvc.view.progress import progress_in

_SEEN_FOR: Final = 2.0  # seconds in which a warning is printed once; then twice as long, as long as it comes again
_DONE: Final = "done: "  # begins the storage-initializer's last line
_MORE: Final = "    "  # begins the further lines of a record
_FRAME: Final = f'{_MORE}  File "'  # begins the place of each call in a traceback
_RECORD_SECONDS: Final = 0.1  # after which no further line of a record comes
# Of our servers and TorchServe, or of a transformer, whose lines have KServe's format.
_RECORD: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3}|\.\d{3} \d+ (?P<logger>\S+)) (?P<level>[A-Z]+) +(?P<text>.*)"
)
# What our servers and TorchServe's say of their own work, and libraries of theirs when a worker starts; what models say
# has the model's name, or TorchServe's thread.
_ROUTINE: Final = re.compile(
    r"(data_plane|mar_runtime|torchserve_adapter(?! models can be)|torchserve_compat(?!.*: installing for )"
    r"|transformer_sdk\.kserve\.serving\.predictor_wait)\b"
    r"|torchserve \[(?!W-.*-std)"
    r"|torchserve \[.*?\] (s_name_part0=|Listening on port|Connection accepted|Successfully loaded /|\[PID\]|"
    r"Torch worker started|Python runtime|model_name: )"
    r"|\S+ \[(worker |W-).*?\] (generated new fontManager|ONNX enabled|OpenVINO is not enabled|"
    r"Torch TensorRT (not )?enabled)$"
)
# What Java and TorchServe print at each start, the calls of a traceback in Java, and a finished bar of tqdm's, by which
# transformers shows that it loads weights.
_NOISE: Final = re.compile(
    r"WARNING: sun\.reflect\.Reflection\.getCallerClass is not supported|nvidia-smi not available or failed: Cannot run"
    r"|Model server started\.$|\tat [\w.$]+\(|.*?100%\|[^|]*\| \S+/\S+ \[.*\]$"
)
_VARYING: Final = re.compile(r"\b[0-9a-f]{8,}\b|\d+")


class Excerpt:
    """What is printed of one container, also when it is started again."""

    def __init__(self, name: str, output: Output, *, is_initializer: bool) -> None:
        self._name = name
        self._output = output
        self._is_initializer = is_initializer
        self._shows_record = True
        self._repeats: dict[_Cause, int] = {}  # how often a warning has come again
        self._warning: list[str] = []  # the lines of the warning that is being written, until it is judged
        self._judging: asyncio.TimerHandle | None = None
        self._cause = ""
        self._failures = 0
        self._held: deque[str] | None = None  # after a failure, until it is ready or fails in another way

    def line(self, line: str) -> None:
        """Print a line of the container, if it is worth it."""
        if self._output.is_verbose or self._is_worth(line):
            self._print(line)

    def ready(self) -> None:
        """Print what was held back; lines are printed as they come from now on."""
        held, self._held = self._held or (), None
        for line in held:
            self._output.log(self._name, line)

    def ended_well(self, message: str) -> None:
        """Print what an initializer that has succeeded has left for people."""
        if message and not self._output.is_verbose:
            self._output.log(self._name, message)

    def failed(self, failure: RunFailed, wait: float) -> RunFailed:
        """Return a failure with what is printed of it; after so many seconds, the container is started again."""
        self._judge()
        cause = _VARYING.sub("0", str(failure))
        again = f"; it is started again in {wait:g} s" if wait else ""
        if cause == self._cause:
            self._failures += 1
            brief = f"{self._name} failed again, same cause (×{self._failures})"
        else:
            self.ready()
            self._cause, self._failures = cause, 1
            is_printed = self._output.is_verbose or not (self._is_initializer or self._output.is_quiet)
            brief = failure.brief if is_printed else str(failure)
        self._held = None if self._output.is_verbose else deque(maxlen=HELD_LINES)
        self._repeats.clear()
        return RunFailed(str(failure), f"{brief}{again}")

    def _is_worth(self, line: str) -> bool:
        if self._is_initializer:
            return progress_in(line) is not None or line.startswith(_DONE)
        if line.startswith(_MORE):
            if self._warning:
                self._warning.append(line)
            return self._shows_record
        self._judge()
        found = _RECORD.match(line)
        self._shows_record = self._is_news(found) if found else not _NOISE.match(line)
        return self._shows_record

    def _is_news(self, record: re.Match[str]) -> bool:
        if record["level"] in ("DEBUG", "INFO", "WARN"):  # the last is TorchServe's
            return _ROUTINE.match(record["logger"] or record["text"]) is None
        self._warning = [record[0]]
        self._judging = asyncio.get_running_loop().call_later(_RECORD_SECONDS, self._judge)
        text = _cause_of(self._warning).text
        return all(known.text != text for known in self._repeats)

    def _judge(self) -> None:
        """Count a warning that has come before; print it if it was held back, and is of another exception."""
        if self._judging is None:
            return
        self._judging.cancel()
        warning, self._warning, self._judging = self._warning, [], None
        cause = _cause_of(warning)
        if cause in self._repeats:
            self._repeats[cause] += 1
            return
        if not self._shows_record:
            self._shows_record = True  # with the lines that still come
            for line in warning:
                self._print(line)
        if len(self._repeats) < REPEATED_LINES:
            self._count(cause, warning[0], _SEEN_FOR)

    def _print(self, line: str) -> None:
        if self._held is None:
            self._output.log(self._name, line)
        else:
            self._held.append(line)

    def _count(self, cause: _Cause, line: str, seconds: float) -> None:
        self._repeats[cause] = 0
        asyncio.get_running_loop().call_later(seconds, self._tell_count, cause, line, seconds)

    def _tell_count(self, cause: _Cause, line: str, seconds: float) -> None:
        if (count := self._repeats.pop(cause, 0)) > 1:  # one more may be another worker's
            self._output.log(self._name, f"{line} ({count:,} more like this in {seconds:g} s)")
            self._count(cause, line, 2 * seconds)


class _Cause(NamedTuple):
    """By what a warning is known again: its text, and the exception of its traceback with the place."""

    text: str
    exception: str
    place: str


def _cause_of(warning: Sequence[str]) -> _Cause:
    record, *more = warning
    exception = next((line for line in reversed(more) if not line.startswith(f"{_MORE} ")), "")
    place = next((line for line in reversed(more) if line.startswith(_FRAME)), "").rpartition('", ')[2]
    return _Cause(_VARYING.sub("0", _RECORD.sub(r"\g<text>", record)), _VARYING.sub("0", exception), place)
