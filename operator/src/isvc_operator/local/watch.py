"""``isvc run --watch``: replaces pods when the files that they were made from have changed.

Files are compared by time, size and inode, twice a second. That works on every file system, and costs little for the
number of files that a model has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.errors import OperatorError
from isvc_operator.limits import WATCHED_FILES
from isvc_operator.local.children import Rendered
from isvc_operator.local.cluster import LocalCluster
from isvc_operator.local.container import Process
from isvc_operator.local.output import Output
from isvc_operator.local.pod import Pod
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

_PERIOD = 0.5  # seconds

FileState = tuple[int, int, int]  # the time of the last change in ns, the size, the inode
Snapshot = Mapping[str, FileState]


@dataclass(frozen=True)
class Inputs:
    """The files of the command line, and what reads the services in them; that raises OperatorError."""

    files: Sequence[Path]
    read: Callable[[], Sequence[Rendered]]


@dataclass(frozen=True)
class _Seen:
    """What the files of the command line were, and those of each Deployment of a service."""

    given: Snapshot
    used: Mapping[tuple[ServiceKey, str], Snapshot]


async def watch(cluster: LocalCluster, inputs: Inputs, output: Output) -> None:
    """Apply each change of the files when they do not change any more; until cancelled.

    Services that cannot be read or run keep their pods.
    """
    applied = before = await _see(cluster, inputs)
    while True:
        await asyncio.sleep(_PERIOD)
        seen = await _see(cluster, inputs)
        settled, before = seen == before, seen
        if not settled:
            continue
        if seen.given != applied.given:
            output.say(f"{_first_change(applied.given, seen.given)} has changed")
            try:
                services = await asyncio.to_thread(inputs.read)
                await cluster.check(services)
                cluster.apply(services)
            except OperatorError as error:
                output.say(f"the services run on as they are: {error}")
        for (key, deployment), files in seen.used.items():
            known = applied.used.get((key, deployment), files)
            if files != known and key in cluster.services:
                output.say(f"{_first_change(known, files)} has changed; the pods of {deployment} are replaced")
                cluster.restart(key, [deployment])
        applied = seen


def files_of(plan: Pod) -> Iterator[Path]:
    """Yield the files and folders of this machine that a pod was made from: its model, and its own programs."""
    copied = [item for process in plan.init if process.container == CONTAINER_INITIALIZER for item in process.command]
    for link, target in plan.links.items():
        parts = [uri for uri in copied if urlsplit(uri).scheme == "pvc" and urlsplit(uri).netloc == link.name]
        yield from (target / urlsplit(uri).path.lstrip("/") for uri in parts)
        if not parts:
            yield target
    for uri in copied:
        if uri.startswith("file://"):
            yield Path(urlsplit(uri).path)
    for process in (*plan.init, *plan.servers):
        yield from _programs(process, plan.folder)


def _programs(process: Process, own: Path) -> Iterator[Path]:
    """Yield the files in a command that are not its own copies; a Python file stands for those beside it, too."""
    folder = Path(process.working_dir or ".")
    for before, word in zip(("", *process.command), process.command, strict=False):
        path = folder / (word.replace(".", "/") if before == "-m" else word)
        if path.is_relative_to(own) or word == process.command[0]:
            continue
        if path.suffix == ".py" and path.is_file():
            yield from path.parent.glob("*.py")
        elif before == "-m":
            yield from path.parent.glob("*.py") if path.with_suffix(".py").is_file() else path.rglob("*.py")
        elif path.is_file():
            yield path


async def _see(cluster: LocalCluster, inputs: Inputs) -> _Seen:
    plans = {(key, name): plan for key in cluster.services for name, plan in cluster.services[key].plans().items()}
    return await asyncio.to_thread(
        lambda: _Seen(snapshot(inputs.files), {key: snapshot(files_of(plan)) for key, plan in plans.items()})
    )


def snapshot(paths: Iterable[Path]) -> Snapshot:
    """Return the state of files, and of those in folders; files beyond the limit are not seen."""
    found: dict[str, FileState] = {}
    for path in paths:
        for file in _files(path):
            if len(found) >= WATCHED_FILES:
                return found
            try:
                state = os.stat(file)  # noqa: PTH116 - once for each file, twice a second
            except OSError:  # it has just gone, or is a link to nothing
                continue
            found[file] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def _files(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (f"{folder}/{name}" for name in names)


def _first_change(before: Snapshot, after: Snapshot) -> str:
    changed = (file for file in {**before, **after} if before.get(file) != after.get(file))
    return one_line(next(changed, "a file"))
