"""Where a run prints: the containers' lines and its own on stderr, what can be pasted on stdout.

On a terminal, Rich colours the names of containers (unless NO_COLOR is set) and draws the progress of downloads.
Elsewhere, and without Rich, the same is plain lines. No text is ever read as Rich's markup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast
from zlib import crc32

from isvc_operator.view.progress import progress_in
from isvc_operator.view.values import Progress

if TYPE_CHECKING:
    import rich.progress

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


class Stream:
    """A standard stream. When nobody reads it any more, ``lost`` is called, and what is printed after that is dropped.

    So it is with a pipe into ``head``, or a terminal that was closed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: Callable[[], object] = lambda: None

    def write(self, text: str) -> int:
        """Print a text at once."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # also for what Python prints itself, such as at its end
            os.close(nowhere)
            self.lost()
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Output(Protocol):
    """What a run prints to. Texts from outside are escaped before they come here."""

    def when_lost(self, call: Callable[[], object]) -> None:
        """Call this when nobody reads any more what the run prints."""
        ...

    def log(self, name: str, line: str) -> None:
        """Print a line of a container."""
        ...

    def say(self, text: str) -> None:
        """Print what the run itself reports."""
        ...

    def show(self, text: str) -> None:
        """Print a result: a response, or a command that can be pasted."""
        ...

    def show_addresses(self, service: str, addresses: Sequence[tuple[str, str]]) -> None:
        """Print the ways to a service, each with its name."""
        ...


class PlainOutput:
    """Plain lines, for files and pipes."""

    def __init__(self, stderr: TextIO, stdout: TextIO) -> None:
        self._streams = self._stderr, self._stdout = Stream(stderr), Stream(stdout)

    def when_lost(self, call: Callable[[], object]) -> None:
        for stream in self._streams:
            stream.lost = call

    def log(self, name: str, line: str) -> None:
        self._stderr.write(f"{name} | {line}\n")

    def say(self, text: str) -> None:
        self._stderr.write(f"{text}\n")

    def show(self, text: str) -> None:
        self._stdout.write(f"{text}\n")

    def show_addresses(self, service: str, addresses: Sequence[tuple[str, str]]) -> None:
        self.show(f"\n{service} is served")
        for name, address in addresses:
            self.show(f"  {name}: {address}")


class TerminalOutput:
    """Colours, and a bar for each download, on a terminal. Rich is imported with the first instance."""

    def __init__(self, stderr: TextIO, stdout: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        def console(stream: Stream) -> Console:
            file = cast(TextIO, stream)
            return Console(file=file, markup=False, highlight=False, emoji=False, soft_wrap=True)

        self._text = Text
        self._streams = Stream(stderr), Stream(stdout)
        self._stderr, self._stdout = map(console, self._streams)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[how]}", markup=False),
        )
        self._bars = Progress(*columns, console=self._stderr, transient=True, refresh_per_second=4)
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def when_lost(self, call: Callable[[], object]) -> None:
        for stream in self._streams:
            stream.lost = call

    def log(self, name: str, line: str) -> None:
        progress = progress_in(line)
        if progress and progress.percent is not None and name.endswith("storage-initializer"):
            self._draw(name, progress)
            return
        self._remove_bar(name)
        colour = _COLOURS[crc32(name.encode()) % len(_COLOURS)]
        self._stderr.print(self._text.assemble((f"{name} | ", colour), line))

    def say(self, text: str) -> None:
        self._stderr.print(self._text(text, style="bold"))

    def show(self, text: str) -> None:
        with self._without_bars():
            self._stdout.print(self._text(text))

    def show_addresses(self, service: str, addresses: Sequence[tuple[str, str]]) -> None:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for name, address in addresses:
            table.add_row(self._text(f"  {name}", style="dim"), self._text(address, style="bold", overflow="fold"))
        with self._without_bars():
            self._stdout.print()
            self._stdout.print(self._text(f"{service} is served", style="bold green"))
            self._stdout.print(table)

    def end(self) -> None:
        """Remove what moves."""
        self._bars.stop()

    def _draw(self, name: str, progress: Progress) -> None:
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


@contextmanager
def new_output() -> Iterator[Output]:
    """Yield the output of this terminal, or plain lines where stderr is none."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield PlainOutput(sys.stderr, sys.stdout)
        return
    output = TerminalOutput(sys.stderr, sys.stdout)
    try:
        yield output
    finally:
        output.end()
