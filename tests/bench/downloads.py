"""One download as a process: how long it took, and the most memory that it and all its children held at once."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_MIB = 1 << 20
_POLL_S = 0.1


@dataclass(frozen=True)
class Download:
    """``seconds`` is the transfer alone, ``wall_s`` with the start of the process and its imports."""

    seconds: float
    wall_s: float
    peak_mib: float  # PSS of all processes together
    files: int
    size: int

    @property
    def mb_per_s(self) -> float:
        return self.size / self.seconds / 1e6


def download(command: Sequence[str | Path], environment: Mapping[str, str], destination: Path) -> Download:
    """Run it. The last line that it prints is JSON with the seconds."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak = _Peak(process.pid)
    output, _ = process.communicate()
    wall = time.perf_counter() - started
    peak.end()
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {output[-2000:]}")
    files = [path for path in destination.rglob("*") if path.is_file()]
    return Download(
        json.loads(output.splitlines()[-1])["seconds"], wall, peak.mib, len(files), sum(f.stat().st_size for f in files)
    )


class _Peak:
    """Looks at a process and its children ten times a second, in a thread of its own."""

    def __init__(self, pid: int) -> None:
        self.mib = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="peak")
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_POLL_S):
            with contextlib.suppress(psutil.NoSuchProcess):
                top = psutil.Process(self._pid)
                self.mib = max(self.mib, sum(map(_pss_mib, [top, *top.children(recursive=True)])))


def _pss_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / _MIB
    except psutil.Error:
        return 0.0
