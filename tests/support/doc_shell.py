"""Runs blocks of commands of the docs as a reader would, in a folder that looks like a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from tests.support.apiserver import ApiServer
from tests.support.build_cache import ROOT
from tests.support.doc_blocks import Block, blocks

# Errors of servers are errors of curl, and a server may still start.
_CURLRC = "silent\nshow-error\nfail-with-body\nretry = 120\nretry-connrefused\nretry-delay = 1\n"
_END = "-- end of a command --"
_TRAP = "trap 'trap \"\" TERM; kill 0' EXIT"  # what still runs in the background is the reader's to end
_ENDS_S = 200
_SAID = 10_000  # characters that a failed test shows
_NORMAL = (  # what differs each time: durations, addresses, tokens, the width of columns
    (r"\d+(\.\d+)? ms\b", "… ms"),
    (r"(dur=|milliseconds: )[\d.e-]+", r"\1…"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:…"),
    (r"token=\S+", "token=…"),
    (r" +", " "),
    (r" +$", ""),
)


@dataclass(frozen=True)
class Exchange:
    """A command that a console shows, with the output there and the one it had here; both are `plain`."""

    command: str
    shown: str
    printed: str


@dataclass(frozen=True)
class DocShell:
    """``swaps`` are words of the docs, each with what stands for it here, such as a port that is free."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    swaps: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def beside_examples(cls, folder: Path) -> Self:
        """A shell in a new checkout: the examples are copies."""
        for name in ("docs", "manifests"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "build").mkdir()
        (folder / ".curlrc").write_text(_CURLRC)
        return cls(folder, {"CURL_HOME": str(folder)})

    def at(self, folder: str) -> Self:
        return replace(self, folder=self.folder / folder)

    def knowing(self, **variables: str) -> Self:
        return replace(self, variables={**self.variables, **variables})

    def swapping(self, swaps: Mapping[str, str]) -> Self:
        return replace(self, swaps={**self.swaps, **swaps})

    def of_cluster(self, server: ApiServer, namespace: str) -> Self:
        """With kubectl, and a kubeconfig that leads to the namespace."""
        config = json.loads(server.kubeconfig.read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = namespace
        file = self.folder / "kubeconfig"
        file.write_text(json.dumps(config))
        path = os.pathsep.join([str(server.assets), self.environment["PATH"]])
        return self.knowing(KUBECONFIG=str(file), PATH=path)

    def run(self, *found: str) -> str:
        """Return what the commands of blocks print, in one shell; AssertionError where one fails."""
        done = self._bash("\n".join([_TRAP, *(self.moved(find(block).text) for block in found)]))
        assert done.returncode == 0, re.sub(r"(?m)^(.*\n)\1+", r"\1", done.stdout)[-_SAID:]  # curl tries 120 times
        return done.stdout

    def talk(self, block: str) -> list[Exchange]:
        """Run the commands of a console, each with its output on the page and here."""
        found = exchanges(find(block).text)
        done = self._bash(f"\necho; echo '{_END}'\n".join([self.moved(command) for command, _ in found]), flags="-u")
        printed = re.split(rf"\n*{_END}\n", done.stdout)
        assert len(printed) == len(found), done.stdout
        both = zip(found, printed, strict=True)
        return [Exchange(command, plain(shown), plain(said)) for (command, shown), said in both]

    def moved(self, text: str) -> str:
        for word, own in self.swaps.items():
            text = text.replace(word, own)
        return text

    @property
    def environment(self) -> dict[str, str]:
        """This machine's, with the programs and modules of this checkout."""
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "runtime-images/mar/src"))),
            "TERMINATION_LOG": str(self.folder / "ended"),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # or it lies beside the models that are packed
            **self.variables,
        }

    def _bash(self, script: str, flags: str = "-eu") -> subprocess.CompletedProcess[str]:
        with subprocess.Popen(
            ["bash", flags, "-o", "pipefail", "-c", script],
            cwd=self.folder, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as shell:  # fmt: skip
            try:
                said, _ = shell.communicate(timeout=_ENDS_S)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(script, shell.returncode, said)


def find(start: str) -> Block:
    """Return the one block whose key begins so."""
    (found,) = (block for block in blocks() if block.key.startswith(start))
    return found


def exchanges(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console's text, each with the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), text
    split = [part.partition("\n") for part in parts[1:]]
    return [(command, shown) for command, _, shown in split]


def plain(text: str) -> str:
    """Return the text without what differs each time."""
    for pattern, instead in _NORMAL:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text.strip()
