"""The command: arguments and environment in; log, exit code and termination message out."""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from model_archive.errors import InvalidArchive
from storage_initializer.cache import NodeCache
from storage_initializer.errors import ArchiveError, InitializerError, Termination
from storage_initializer.generate import complete_layout
from storage_initializer.layout import check_layout
from storage_initializer.limits import MAX_REASON
from storage_initializer.lines import LogLineFormatter, one_line
from storage_initializer.plan import DEFAULT_TERMINATION_LOG, Plan, Transfer, make_plan, termination_log_of
from storage_initializer.registry import open_source
from storage_initializer.retry import Retry
from storage_initializer.schemes import SCHEMES
from storage_initializer.secrets import hiding
from storage_initializer.sources import Source
from storage_initializer.termination import termination_raises, uninterrupted
from storage_initializer.transfer import StagedDestination, StagedSource, move_into_place, places, stage

log = logging.getLogger("storage_initializer")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    # The server reads the copy as another user.
    os.umask(0o022)
    given = sys.argv[1:] if arguments is None else arguments
    termination_log, hide = termination_log_of(environment), hiding(environment, *given)
    with _console(hide):
        try:
            plan = make_plan(given, environment)
            termination_log = plan.termination_log
            with termination_raises():
                _succeed(run(plan), termination_log)
        except (InitializerError, Termination) as error:
            return _fail(hide(str(error)), error.exit_code, termination_log)
        except Exception as error:
            log.exception("unexpected")
            reason = hide(f"unexpected {type(error).__name__}: {error}; the traceback is in the log")
            return _fail(reason, InitializerError.exit_code, termination_log)
    return 0


def run(plan: Plan) -> list[str]:
    """Copy all sources to their destinations and return warnings about them.

    What is wrong with one of them without a request is found before the first is staged.
    """
    if plan.packages:
        _create(plan.packages)
    with ExitStack() as opened:
        sources = [_open(transfer, plan) for transfer in plan.transfers]
        staged = []
        for transfer, source, place in zip(plan.transfers, sources, _places(plan), strict=True):
            with _naming(transfer):
                staged.append(opened.enter_context(_stage(transfer, source, place=place, plan=plan)))
        _move_into_place(plan, staged)
    for each in staged:
        log.info("done: %s", each.summary)
    return [warning for each in staged for warning in each.warnings]


def _create(packages: Path) -> None:
    """Create the folder that the server mounts; the kubelet would create one that only root can write to."""
    try:
        packages.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.warning("the server cannot keep packages on the node: %s cannot be created (%s)", packages, error.strerror)


def _move_into_place(plan: Plan, staged: Sequence[StagedSource]) -> None:
    """All, or none."""
    with uninterrupted(), ExitStack() as undo:
        for transfer, each in zip(plan.transfers, staged, strict=True):
            with _naming(transfer):
                move_into_place(each.place, undo)
        undo.pop_all()


def _open(transfer: Transfer, plan: Plan) -> Source:
    with _naming(transfer):
        return open_source(transfer, plan)


def _places(plan: Plan) -> list[StagedDestination]:
    with _naming(plan.transfers[0]):
        return places([transfer.destination for transfer in plan.transfers])


def _stage(
    transfer: Transfer, source: Source, *, place: StagedDestination, plan: Plan
) -> AbstractContextManager[StagedSource]:
    log.info("%s → %s", transfer.source.shown, transfer.destination)

    def finish(folder: Path) -> Sequence[str]:
        unserved = complete_layout(plan.layout, folder)
        return [*unserved, *check_layout(plan.layout, folder, transfer.destination)]

    retry = Retry(plan.policy.attempts, random.random, time.sleep)
    if access := retry.run(source.describe):
        log.info("%s", access)
    cache = _cache_for(transfer, plan)
    return stage(source, place, select=plan.selection.of, finish=finish, retry=retry, clock=time.monotonic, cache=cache)


@contextmanager
def _naming(transfer: Transfer) -> Iterator[None]:
    """Make each error of the block name the source, unless it names one already."""
    try:
        yield
    except InvalidArchive as error:
        raise _of_source(ArchiveError(str(error)), transfer) from error
    except InitializerError as error:
        _of_source(error, transfer)
        raise


def _of_source(error: InitializerError, transfer: Transfer) -> InitializerError:
    error.source = error.source or transfer.source.shown
    return error


def _cache_for(transfer: Transfer, plan: Plan) -> NodeCache | None:
    if not plan.cache:
        return None
    if not SCHEMES[transfer.source.scheme].is_remote:
        log.info("not kept in the node's cache: files and claims are read where they are")
        return None
    boot = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""
    return NodeCache(plan.cache.folder, plan.cache.limit, boot)


def _succeed(warnings: Sequence[str], termination_log: Path) -> None:
    """Report warnings in the container's status: of a container that has succeeded, nobody reads the log."""
    for warning in warnings:
        log.warning("%s", warning)
    if warnings:
        _write_message("; ".join(warnings), termination_log)


def _fail(reason: str, exit_code: int, termination_log: Path) -> int:
    line = _write_message(reason, termination_log)
    sys.stdout.flush()
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
    return exit_code


def _write_message(text: str, termination_log: Path) -> str:
    """Write the termination message, one line of bounded length, and return it."""
    line = one_line(text).encode()[:MAX_REASON].decode(errors="ignore")
    # The kubelet creates the default file; without it there is no kubelet to read it.
    if termination_log != Path(DEFAULT_TERMINATION_LOG) or termination_log.exists():
        with suppress(OSError):
            termination_log.write_text(line, encoding="utf-8")
    return line


@contextmanager
def _console(hide: Callable[[str], str]) -> Iterator[None]:
    """Lines for ``kubectl logs``, without secrets; a handler flushes after each."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LogLineFormatter(hide))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
