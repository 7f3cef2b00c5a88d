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
from typing import NamedTuple
from urllib.parse import urlsplit

from isvc.run.children import Rendered
from isvc.run.cluster import LocalCluster
from isvc.run.container import Process
from isvc.run.output import Output
from isvc.run.pod import Pod
from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.errors import OperatorError
from isvc_operator.limits import WATCHED_FILES
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

_PERIOD = 0.5  # seconds
# A file that is copied from elsewhere may pause for longer than a small one takes altogether.
_LARGE, _QUIET_LOOKS, _QUIET_LOOKS_LARGE = 10 * 1024 * 1024, 1, 4

FileState = tuple[int, int, int]  # the time of the last change in ns, the size, the inode
Snapshot = Mapping[str, FileState]


@dataclass(frozen=True)
class WatchedFiles:
    """The files of the command line, and what reads the services in them; that raises OperatorError.

    ``first`` is what the files were before they were read for the first time.
    """

    files: Sequence[Path]
    read: Callable[[], Sequence[Rendered]]
    first: Snapshot


class Root(NamedTuple):
    """Files that a pod was made from: a file or a folder, or what matches ``pattern`` in a folder."""

    path: Path
    pattern: str = ""


@dataclass(frozen=True)
class _Seen:
    """What the files of the command line were, and those of each Deployment of a service."""

    given: Snapshot
    used: Mapping[tuple[ServiceKey, str], Mapping[Root, Snapshot]]


async def watch(cluster: LocalCluster, inputs: WatchedFiles, output: Output) -> None:
    """Apply each change of the files when they do not change any more; until cancelled.

    Services that cannot be read or run keep their pods.
    """
    told: set[tuple[ServiceKey, str]] = set()
    before = await _see(cluster, inputs)
    applied, quiet = _Seen(inputs.first, before.used), 0
    while True:
        await asyncio.sleep(_PERIOD)
        seen = await _see(cluster, inputs)
        quiet, before = (quiet + 1 if seen == before else 0), seen
        _tell_limit(seen, told, output)
        if quiet < _looks_needed(applied, seen):
            continue
        try:
            await _apply(cluster, inputs, applied, seen, output)
        except OperatorError as error:
            output.say(f"the services run on as they are: {error}")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with an edit, the services serve on
            output.say(f"the services run on as they are; this was not foreseen: {one_line(repr(error))}")
        applied = seen


async def _apply(cluster: LocalCluster, inputs: WatchedFiles, applied: _Seen, seen: _Seen, output: Output) -> None:
    if seen.given != applied.given:
        output.say(f"{_first_change(applied.given, seen.given)} has changed")
        services = await asyncio.to_thread(inputs.read)
        await cluster.check(services)
        cluster.apply(services)
    for (key, deployment), roots in seen.used.items():
        known = applied.used.get((key, deployment), {})
        changes = [
            _first_change(known[root], files) for root, files in roots.items() if known.get(root, files) != files
        ]
        if changes and key in cluster.services:
            output.say(f"{changes[0]} has changed; the pods of {deployment} are replaced")
            cluster.restart(key, [deployment])


def _looks_needed(applied: _Seen, seen: _Seen) -> int:
    """Return how many times the files have to be as they were before their changes count."""
    large = (
        state[1] >= _LARGE
        for deployment, roots in seen.used.items()
        for root, files in roots.items()
        for file, state in files.items()
        if applied.used.get(deployment, {}).get(root, files).get(file) != state
    )
    return _QUIET_LOOKS_LARGE if any(large) else _QUIET_LOOKS


def _tell_limit(seen: _Seen, told: set[tuple[ServiceKey, str]], output: Output) -> None:
    for place, roots in seen.used.items():
        if place not in told and sum(map(len, roots.values())) >= WATCHED_FILES:
            told.add(place)
            output.say(f"{place[1]} has more than {WATCHED_FILES} files; changes of the others are not seen")


def roots_of(plan: Pod) -> Iterator[Root]:
    """Yield where the files of this machine are that a pod was made from: its model, and its own programs."""
    copied = [item for process in plan.init if process.container == CONTAINER_INITIALIZER for item in process.command]
    for link, target in plan.links.items():
        parts = [uri for uri in copied if urlsplit(uri).scheme == "pvc" and urlsplit(uri).netloc == link.name]
        yield from (Root(target / urlsplit(uri).path.lstrip("/")) for uri in parts)
        if not parts:
            yield Root(target)
    for uri in copied:
        if uri.startswith("file://"):
            yield Root(Path(urlsplit(uri).path))
    for process in (*plan.init, *plan.servers):
        yield from _programs(process, plan.folder)


def _programs(process: Process, own: Path) -> Iterator[Root]:
    """Yield the files in a command that are not its own copies; a Python file stands for those beside it, too."""
    folder = Path(process.working_dir or ".")
    for before, word in zip(("", *process.command), process.command, strict=False):
        path = folder / (word.replace(".", "/") if before == "-m" else word)
        if path.is_relative_to(own) or word == process.command[0]:
            continue
        if before == "-m":
            yield Root(path.parent, "*.py") if path.with_suffix(".py").is_file() else Root(path, "**/*.py")
        elif path.suffix == ".py":
            yield Root(path.parent, "*.py")
        elif path.suffix and not word.startswith("-"):
            yield Root(path)


def files_of(root: Root) -> Iterator[Path]:
    """Yield the files and folders of a root."""
    if root.pattern:
        yield from root.path.glob(root.pattern)
    elif root.path.exists():
        yield root.path


async def _see(cluster: LocalCluster, inputs: WatchedFiles) -> _Seen:
    plans = {(key, name): plan for key in cluster.services for name, plan in cluster.services[key].plans().items()}
    return await asyncio.to_thread(
        lambda: _Seen(snapshot(inputs.files), {key: snapshots(roots_of(plan)) for key, plan in plans.items()})
    )


def snapshots(roots: Iterable[Root]) -> Mapping[Root, Snapshot]:
    """Return the state of the files of each root; files beyond the limit are not seen."""
    found: dict[Root, Snapshot] = {}
    left = WATCHED_FILES
    for root in dict.fromkeys(roots):
        try:
            found[root] = snapshot(files_of(root), left)
        except (OSError, ValueError):  # no name of a file, or a folder that may not be read
            continue
        left -= len(found[root])
    return found


def snapshot(paths: Iterable[Path], most: int | None = None) -> Snapshot:
    """Return the state of files, and of those in folders; those after ``most`` of them are left out."""
    found: dict[str, FileState] = {}
    for path in paths:
        for file, state_of in _files(path):
            if len(found) >= (WATCHED_FILES if most is None else most):
                return found
            try:
                state = state_of(file)
            except OSError:  # it has just gone, or is a link to nothing
                continue
            found[file] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def _files(path: Path) -> Iterator[tuple[str, Callable[[str], os.stat_result]]]:
    """Yield files, and what returns their state: links to folders are followed, and have a state of their own."""
    if not path.is_dir():
        yield str(path), os.stat
        return
    entered: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        state = os.stat(folder)  # noqa: PTH116 - once for each folder, twice a second
        if (state.st_dev, state.st_ino) in entered:  # a link leads back to it
            folders.clear()
            continue
        entered.add((state.st_dev, state.st_ino))
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from ((link, os.lstat) for name in folders if os.path.islink(link := f"{folder}/{name}"))  # noqa: PTH114
        yield from ((f"{folder}/{name}", os.stat) for name in names)


def _first_change(before: Snapshot, after: Snapshot) -> str:
    changed = (file for file in {**before, **after} if before.get(file) != after.get(file))
    return one_line(next(changed, "a file"))
