"""Where a process spends its time: a sampling profile by py-spy, and a summary of it in words."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.bench.environments import UV

PY_SPY = "py-spy==0.4.1"
_RATE = 100  # samples a second
_LEAST = 0.01  # the share of the samples from which something is shown
_ALL = 0.9  # the share of what runs everything


@contextlib.contextmanager
def profiled(process: psutil.Process, stacks: Path) -> Iterator[None]:
    """Sample the process until the end of the block, and write its stacks with their numbers."""
    command = [UV, "run", "--quiet", "--no-project", "--with", PY_SPY, "py-spy", "record", f"--pid={process.pid}",
               f"--rate={_RATE}", "--format=raw", "--nonblocking", f"--output={stacks}"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as recorder:
        try:
            yield
        finally:
            for child in psutil.Process(recorder.pid).children(recursive=True):
                child.send_signal(signal.SIGINT)  # it writes then
            _, said = recorder.communicate(timeout=120)
            assert stacks.exists(), said


def summary(text: str) -> str:
    """The functions and packages with the most time. What only runs everything else is left out.

    A line of ``text`` is a stack, outermost first, and how often it was seen. py-spy does not stop the process, and now
    and then takes a text of it for a name: what comes of that is no such line.
    """
    inside, own, packages, total = Counter[str](), Counter[str](), Counter[str](), 0
    for line in text.splitlines():
        stack, _, number = line.rpartition(" ")
        if not number.isdecimal():
            continue
        frames = [_without_line(frame) for frame in stack.split(";")]
        total += int(number)
        own[frames[-1]] += int(number)
        packages[_package(frames[-1])] += int(number)
        for frame in set(frames):
            inside[frame] += int(number)
    called = {
        frame: number for frame, number in inside.items() if number < _ALL * total and _package(frame) != "asyncio"
    }
    lines = [f"{total:,} samples with work in them, {_RATE} a second"]
    for what, counted, most in (
        ("with what it calls", Counter(called), 30), ("by itself", own, 15), ("by itself, by package", packages, 12),
    ):  # fmt: skip
        shown = [(name, number) for name, number in counted.most_common(most) if number >= _LEAST * total]
        lines += ["", f"{what}:", *(f"{number / total:6.1%}  {name}" for name, number in shown)]
    return "\n".join(lines)


def _without_line(frame: str) -> str:
    """``name (file.py:12)`` as ``name (file.py)``, the file from its package on."""
    name, _, place = frame.partition(" (")
    path = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    for root in ("site-packages/", "/src/", "/python3.11/", "/lib/"):
        path = path.rpartition(root)[2]
    return f"{name} ({path})"


def _package(frame: str) -> str:
    path = frame.partition(" (")[2].rstrip(")")
    return path.partition("/")[0] if "/" in path else path
