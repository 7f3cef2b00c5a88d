"""``isvc run --watch``: replaces pods when the files that they were made from have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watchfiles import awatch

from isvc.run.check import Checked
from isvc.run.cluster import LocalCluster
from isvc.run.container import Process
from isvc.run.output import Output
from isvc.run.pod import PodPlan, copied
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

_PERIOD = 0.5  # seconds between two looks whether the pods are made from other files than before
# Seconds without a change before changes count. A large file that is copied from elsewhere may pause for longer.
_LARGE, _QUIET, _QUIET_LARGE = 10 * 1024 * 1024, 0.5, 2.0


@dataclass(frozen=True)
class WatchedFiles:
    """The files of the command line, and what reads the services in them; that raises OperatorError.

    ``read_at`` is when they were read for the first time, in seconds since the epoch.
    """

    files: Sequence[Path]
    read: Callable[[], Checked]
    read_at: float


@dataclass(frozen=True)
class Root:
    """A file, or a folder with all that is in it; with ``modules`` the Python files that are directly in a folder."""

    path: Path
    modules: bool = False

    def name(self, changed: Path) -> Path | None:
        """Return what a file that has changed is called here; None if it is none of these."""
        path = self.path.resolve()
        if changed == self.path.absolute():
            return self.path
        if not changed.is_relative_to(path) or any(map(_is_of_a_tool, changed.relative_to(path).parts)):
            return None
        if self.modules and (changed.suffix != ".py" or changed.parent != path):
            return None
        return self.path / changed.relative_to(path)

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """Yield the folders to watch, and whether with all that is in them.

        What a root lies in is watched as well: editors replace files, and links are made to lead elsewhere.
        """
        if self.path.is_dir():
            yield self.path.resolve(), not self.modules
        for parent in (self.path.absolute().parent, self.path.resolve().parent):
            if parent.is_dir():
                yield parent, False


def _is_of_a_tool(name: str) -> bool:
    """Whether a file or folder is made by editors, git or Python beside what people write."""
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


_Used = Mapping[tuple[ServiceKey, str], Sequence[Root]]


async def watch(cluster: LocalCluster, inputs: WatchedFiles, output: Output) -> None:
    """Apply each change of the files when they do not change any more; until cancelled.

    Services that cannot be read or run keep their pods.
    """
    given = [Root(path) for path in inputs.files]
    async with asyncio.TaskGroup() as tasks:
        watcher, used = FileWatcher(tasks, output), _used(cluster)
        watcher.follow(given, *used.values())
        await asyncio.sleep(0)  # they are watched now; what has changed before that is looked for
        for file in inputs.files:
            if file.exists() and file.stat().st_mtime > inputs.read_at:
                watcher.changes.put_nowait(file.absolute())
        are_refused = False
        while True:
            if changed := await _settled(watcher.changes):
                try:
                    are_read = await _apply(cluster, inputs, output, changed, used)
                    if are_refused and are_read:
                        output.say("the files can be used again, and are")
                    are_refused = are_refused and not are_read
                except OperatorError as error:
                    are_refused = True
                    why = str(error).replace("\nisvc: ", "\n")  # each line as the first
                    output.say(f"the services run on as they are: {why}")
                except Exception as error:  # noqa: BLE001 - whatever is wrong with an edit, the services serve on
                    are_refused = True
                    output.say(f"the services run on as they are; this was not foreseen: {one_line(repr(error))}")
            used = _used(cluster)
            watcher.follow(given, *used.values(), again=any(path.is_symlink() for path in changed))


def _used(cluster: LocalCluster) -> _Used:
    return {
        (key, name): list(roots_of(plan))
        for key, service in cluster.services.items()
        for name, plan in service.plans().items()
    }


class FileWatcher:
    """Puts the files of some roots that change into ``changes``."""

    def __init__(self, tasks: asyncio.TaskGroup, output: Output) -> None:
        self.changes: asyncio.Queue[Path] = asyncio.Queue()
        self._tasks = tasks
        self._output = output
        self._roots: set[Root] = set()
        self._watched: dict[bool, tuple[set[Path], asyncio.Task[None]]] = {}

    def follow(self, *roots: Iterable[Root], again: bool = False) -> None:
        """Watch the folders of these roots and no others, by one task with all that is in them and by one without.

        ``again``: links may lead to other folders than before.
        """
        self._roots = {root for group in roots for root in group}
        folders = {folder for root in self._roots for folder in root.folders()}
        for recursive in (False, True):
            paths = {path for path, whole in folders if whole is recursive}
            before, task = self._watched.get(recursive, (set(), None))
            if again or paths != before:
                self._watched[recursive] = paths, self._tasks.create_task(self._watch(paths, recursive=recursive))
                if task:
                    task.cancel()

    async def _watch(self, paths: Iterable[Path], *, recursive: bool) -> None:
        try:
            async for found in awatch(
                *paths,
                watch_filter=lambda _, path: any(root.name(Path(path)) for root in self._roots),
                recursive=recursive,
                ignore_permission_denied=True,
            ):
                for _, path in found:
                    self.changes.put_nowait(Path(path))
        except (OSError, RuntimeError) as error:  # there are too many of them, or one has just gone
            self._output.say(f"changes of some files are not seen: {one_line(str(error))}")


async def _settled(changes: asyncio.Queue[Path]) -> set[Path]:
    """Return what has changed, when it has not changed for a while; nothing if there is no change."""
    changed: set[Path] = set()
    quiet = _PERIOD
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(quiet):
                path = await changes.get()
            changed.add(path)
            with suppress(OSError):
                quiet = max(quiet, _QUIET_LARGE if path.stat().st_size >= _LARGE else _QUIET)
    return changed


async def _apply(cluster: LocalCluster, inputs: WatchedFiles, output: Output, changed: set[Path], used: _Used) -> bool:
    """Return whether the files of the command line are among what has changed, and were read."""
    replaced = [(*place, file) for place, roots in used.items() if (file := _first(roots, changed))]
    if given := _first([Root(path) for path in inputs.files], changed):
        if not replaced:
            output.say(_happened(given))
        checked = await asyncio.to_thread(inputs.read)
        cluster.apply(await cluster.check(checked.usable, checked.refused))
        if cluster.refused.summary:
            output.say(cluster.refused.summary)
    for key, deployment, file in replaced:
        if key in cluster.services:
            output.say(f"{_happened(file)}; the pods of {deployment} are replaced")
            cluster.restart(key, [deployment], file)
    return bool(given)


def _happened(file: str) -> str:
    return f"{file} {'has changed' if Path(file).exists() else 'was deleted'}"


def _first(roots: Sequence[Root], changed: Iterable[Path]) -> str:
    names = (root.name(path) for path in sorted(changed) for root in roots)
    return next((one_line(str(name)) for name in names if name), "")


def roots_of(plan: PodPlan) -> Iterator[Root]:
    """Yield where the files of this machine are that a pod was made from: its model, and its own programs."""
    sources = [source for source, _ in copied(plan.init, plan.links)]
    yield from map(Root, sources)
    for target in plan.links.values():
        if not any(source.is_relative_to(target) for source in sources):
            yield Root(target)
    for process in (*plan.init, *plan.servers):
        yield from _programs(process, plan.folder)


def _programs(process: Process, own: Path) -> Iterator[Root]:
    """Yield the files in a command that are not its own copies; a Python file stands for those beside it, too."""
    folder = Path(process.working_dir or ".")
    for before, word in zip(("", *process.command), process.command, strict=False):
        path = folder / (word.replace(".", "/") if before == "-m" else word)
        if path.is_relative_to(own) or word == process.command[0]:
            continue
        if before == "-m" and path.is_dir():
            yield Root(path)
        elif path.suffix == ".py" or (before == "-m" and path.with_suffix(".py").is_file()):
            yield Root(path.parent, modules=True)
        elif path.suffix and not word.startswith("-"):
            yield Root(path)
