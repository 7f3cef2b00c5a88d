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
_MOST = 30  # functions of the summary
_LEAST = 0.01  # the share of the samples from which a function is shown


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
    """The functions with the most time, with what they call, and the packages with the most time of their own.

    A line of ``text`` is a stack, outermost first, and how often it was seen.
    """
    inside, own, total = Counter[str](), Counter[str](), 0
    for line in text.splitlines():
        stack, _, number = line.rpartition(" ")
        frames = [_without_line(frame) for frame in stack.split(";")]
        total += int(number)
        own[_package(frames[-1])] += int(number)
        for frame in set(frames):
            inside[frame] += int(number)
    shown = [(frame, number) for frame, number in inside.most_common(_MOST) if _LEAST * total <= number < 0.97 * total]
    return "\n".join([
        f"{total:,} samples with work in them, {_RATE} a second", "",
        "with what it calls:", *(f"{number / total:6.1%}  {frame}" for frame, number in shown), "",
        "by itself, by package:",
        *(f"{number / total:6.1%}  {name}" for name, number in own.most_common(15) if number >= _LEAST * total),
    ])  # fmt: skip


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
