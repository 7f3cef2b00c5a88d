"""Where a run prints: the containers' lines and its own on stderr, what can be pasted on stdout.

A thread of its own prints, because a pipe or a terminal may take nothing for as long as its reader likes (``| less``,
Ctrl-S). Meanwhile the run goes on; lines of containers that are too much to keep are dropped, and counted.

On a terminal, Rich colours the names of containers (unless NO_COLOR is set) and draws the progress of downloads.
Elsewhere, and without Rich, the same is plain lines. No text is ever read as Rich's markup.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, TextIO, cast
from zlib import crc32

from isvc.limits import UNREAD_OUTPUT_BYTES
from isvc.view.progress import progress_in
from isvc.view.values import DownloadProgress
from isvc_operator.api.names import CONTAINER_INITIALIZER

if TYPE_CHECKING:
    import rich.progress

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
_ITEM_COST = 500  # bytes of memory, beside the text of a line
_UNREAD_SECONDS = 2.0  # at the end, for what nobody reads


class StandardStream:
    """A standard stream. When nobody reads it any more, ``lost`` is called, and what is printed after that is dropped.

    So it is with a pipe into ``head``, or a terminal that was closed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self.lost: Callable[[], object] = lambda: None
        self.is_writing = False
        self._is_left = False

    def write(self, text: str) -> int:
        """Print a text at once."""
        self.is_writing = True
        try:
            self._write(text)
        except OSError:
            self.leave()
            self.lost()
        self.is_writing = False
        return len(text)

    def leave(self) -> None:
        """Print nowhere from now on: also what Python prints itself, such as at its end."""
        if self._descriptor is not None and not self._is_left:
            self._is_left = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._descriptor)
            os.close(nowhere)

    def _write(self, text: str) -> None:
        if self._descriptor is None:
            self._stream.write(text)
            return
        # Not by the stream, whose lock would be held at the end of Python if nobody reads.
        left = memoryview(text.encode(self._stream.encoding, errors="backslashreplace"))
        while left and not self._is_left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # whoever shares it has made it so
                select.select([], [self._descriptor], [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):
        return None


class _Printed:
    """What prints on the two standard streams."""

    def __init__(self, stderr: TextIO, stdout: TextIO) -> None:
        self.streams = StandardStream(stderr), StandardStream(stdout)

    def when_lost(self, call: Callable[[], object]) -> None:
        """Call this when nobody reads any more what is printed."""
        for stream in self.streams:
            stream.lost = call


class PlainOutput(_Printed):
    """Plain lines, for files and pipes."""

    def __init__(self, stderr: TextIO, stdout: TextIO) -> None:
        super().__init__(stderr, stdout)
        self._stderr, self._stdout = self.streams

    def log(self, name: str, line: str) -> None:
        self._stderr.write(f"{name} | {line}\n")

    def say(self, text: str) -> None:
        self._stderr.write(f"{text}\n")

    def show(self, text: str) -> None:
        self._stdout.write(f"{text}\n")

    def show_service(self, service: str, addresses: Sequence[tuple[str, str]], lines: Sequence[str]) -> None:
        shown = (f"{name}: {address}" for name, address in addresses)
        self.show("\n  ".join((f"\n{service} is served", *shown, *lines)))

    def end(self) -> None:
        """Nothing moves."""


class TerminalOutput(_Printed):
    """Colours, and a bar for each download, on a terminal. Rich is imported with the first instance."""

    def __init__(self, stderr: TextIO, stdout: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        def console(stream: StandardStream) -> Console:
            file = cast(TextIO, stream)
            return Console(file=file, markup=False, highlight=False, emoji=False, soft_wrap=True)

        super().__init__(stderr, stdout)
        self._text = Text
        self._stderr, self._stdout = map(console, self.streams)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[how]}", markup=False),
        )
        self._bars = Progress(*columns, console=self._stderr, transient=True, refresh_per_second=4)
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def log(self, name: str, line: str) -> None:
        if CONTAINER_INITIALIZER in name:
            progress = progress_in(line)
            if progress and progress.percent is not None:
                self._draw(name, progress)
                return
            self._remove_bar(name)
        self._stderr.print(self._text.assemble((f"{name} | ", _colour(name)), line))

    def say(self, text: str) -> None:
        self._stderr.print(self._text(text, style="bold"))

    def show(self, text: str) -> None:
        with self._without_bars():
            self._stdout.print(self._text(text))

    def show_service(self, service: str, addresses: Sequence[tuple[str, str]], lines: Sequence[str]) -> None:
        width = max((len(name) for name, _ in addresses), default=0)
        with self._without_bars():
            self._stdout.print()
            self._stdout.print(self._text(f"{service} is served", style="bold green"))
            for name, address in addresses:  # a table of Rich would fold an address, which is copied as a whole
                self._stdout.print(self._text.assemble((f"  {name:<{width}}  ", "dim"), (address, "bold")))
            for line in lines:
                self._stdout.print(self._text(f"  {line}"))

    def end(self) -> None:
        """Remove what moves."""
        self._bars.stop()

    def _draw(self, name: str, progress: DownloadProgress) -> None:
        how = f"{progress.percent} % of {progress.size}, {progress.rate}, {progress.seconds_left} s left"
        if not self._tasks:
            self._bars.start()
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=100, how=how)
        self._bars.update(self._tasks[name], completed=progress.percent, how=how)

    def _remove_bar(self, name: str) -> None:
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
            if not self._tasks:
                self._bars.stop()

    @contextmanager
    def _without_bars(self) -> Iterator[None]:
        """Stop the bars, which are on stderr, while something is printed on stdout."""
        if not self._tasks:
            yield
            return
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


def _colour(name: str) -> str:
    return _COLOURS[crc32(name.encode()) % len(_COLOURS)]


class _Queue:
    """Has things printed on some streams in a thread, and never waits for it. ``say`` prints how much was dropped."""

    def __init__(self, streams: Sequence[StandardStream], say: Callable[[str], object]) -> None:
        self._streams = streams
        self._say = say
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self._changed = threading.Condition()
        self._size = self._dropped = self._printed = 0
        self._ended = False
        self._thread = threading.Thread(target=self._print, name="output", daemon=True)
        self._thread.start()

    def add(self, size: int, print_: Callable[[], object], limit: int) -> None:
        """Have something of so many bytes printed, unless more than the limit waits."""
        with self._changed:
            if self._waiting and self._size + size > limit:
                self._dropped += 1
                return
            if self._dropped:
                self._waiting.append((0, self._tell_dropped()))
            self._size += size + _ITEM_COST
            self._waiting.append((size + _ITEM_COST, print_))
            self._changed.notify()

    def end(self) -> None:
        """Print what is left; what nobody takes for a while is dropped."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        printed = -1
        while self._thread.is_alive() and printed != self._printed:
            printed = self._printed
            self._thread.join(_UNREAD_SECONDS)
        if self._thread.is_alive():
            for stream in self._streams:
                if stream.is_writing:
                    stream.leave()

    def _print(self) -> None:
        while item := self._next():
            size, print_ = item
            print_()
            self._printed += 1
            with self._changed:
                self._size -= size

    def _next(self) -> tuple[int, Callable[[], object]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._dropped or self._ended)
            if self._waiting:
                return self._waiting.popleft()
            return (0, self._tell_dropped()) if self._dropped else None

    def _tell_dropped(self) -> Callable[[], object]:
        dropped, self._dropped = self._dropped, 0
        return partial(self._say, f"{dropped} lines were dropped here, because nobody read what was printed")


class Verbosity(IntEnum):
    """How much is printed: failures and results; also what people have to know; all."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Output:
    """What a run prints to, and never waits for. Texts from outside are escaped before they come here.

    ``when_lost`` gets what to call when nobody reads any more. What the run itself reports has as much room again as
    lines of containers.
    """

    def __init__(self, printed: PlainOutput | TerminalOutput, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self._printed = printed
        self._verbosity = verbosity
        self.when_lost = printed.when_lost
        stderr, stdout = printed.streams
        if isinstance(printed, TerminalOutput):  # which shows both, in their order
            self._lines = self._results = _Queue(printed.streams, printed.say)
        else:  # a reader of one of them may not read the other
            self._lines, self._results = _Queue([stderr], printed.say), _Queue([stdout], printed.say)

    @property
    def is_verbose(self) -> bool:
        """Whether all is printed."""
        return self._verbosity is Verbosity.VERBOSE

    @property
    def is_quiet(self) -> bool:
        """Whether no line of a container is printed."""
        return self._verbosity is Verbosity.QUIET

    def log(self, name: str, line: str) -> None:
        """Print a line of a container, unless only failures are."""
        if not self.is_quiet:
            self._lines.add(len(line), partial(self._printed.log, name, line), UNREAD_OUTPUT_BYTES)

    def detail(self, text: str) -> None:
        """Print what the run itself reports, if all is printed."""
        if self.is_verbose:
            self.say(text)

    def note(self, text: str) -> None:
        """Print what the run itself reports, unless only failures are."""
        if not self.is_quiet:
            self.say(text)

    def say(self, text: str) -> None:
        """Print what the run itself reports in any case."""
        self._lines.add(len(text), partial(self._printed.say, text), 2 * UNREAD_OUTPUT_BYTES)

    def show(self, text: str) -> None:
        """Print a result: a response, or a command that can be pasted."""
        self._results.add(len(text), partial(self._printed.show, text), 2 * UNREAD_OUTPUT_BYTES)

    def show_service(self, service: str, addresses: Sequence[tuple[str, str]], lines: Sequence[str]) -> None:
        """Print in one piece how a service is reached: its addresses, each with its name, and commands."""
        size = sum(map(len, (*chain.from_iterable(addresses), *lines)))
        printing = partial(self._printed.show_service, service, addresses, lines)
        self._results.add(size, printing, 2 * UNREAD_OUTPUT_BYTES)

    def end(self) -> None:
        """Print what is left, and remove what moves."""
        self._results.add(0, self._printed.end, sys.maxsize)
        self._results.end()
        self._lines.end()


@contextmanager
def new_output(verbosity: Verbosity = Verbosity.NORMAL) -> Iterator[Output]:
    """Yield the output of this terminal, or plain lines where stderr is none."""
    is_terminal = sys.stderr.isatty() and find_spec("rich") is not None
    output = Output((TerminalOutput if is_terminal else PlainOutput)(sys.stderr, sys.stdout), verbosity)
    try:
        yield output
    finally:
        output.end()
