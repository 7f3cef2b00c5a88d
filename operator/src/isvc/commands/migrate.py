"""``isvc migrate``: change a cluster over from KServe's controller, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.cluster import ClusterFlags, credential_flags
from isvc.commands.exit_codes import EXIT_INVALID, EXIT_NO_EFFECT
from isvc.commands.names import Namespace
from isvc.commands.output import OutputFormat, output_flag, write_data, write_record
from isvc.commands.values import WholeNumber
from isvc.limits import MIGRATE_SECONDS, MIGRATED_SERVICES

if TYPE_CHECKING:
    from isvc.migrate.objects import LiveObjects
    from isvc.migrate.session import Session, StepTaken
    from isvc_operator.manifests import Manifest

_timeout = click.option(
    "--timeout",
    type=WholeNumber(1, MIGRATE_SECONDS),
    default=300,
    metavar="SECONDS",
    help=f"seconds for each step of a service, at most {MIGRATE_SECONDS} (default: 300)",
)


def _scope(step: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say which services, and what is installed."""
    namespaces = click.option(
        "-n",
        "--namespace",
        multiple=True,
        type=Namespace(),
        metavar="NAME",
        help="only this namespace; may be repeated (default: all)",
    )
    manifests = click.option(
        "--manifests",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML with the operator and its runtimes, which are installed; may be repeated",
    )
    return namespaces(manifests(step))


@click.group(short_help="change a cluster over from KServe's controller, and back")
def command() -> None:
    """Change a cluster over from KServe's controller to this operator while its services serve, and back."""


@command.command(short_help="print what changes for each service; writes nothing")
@credential_flags
@_scope
@output_flag
def plan(
    *, cluster: ClusterFlags, namespace: tuple[str, ...], manifests: tuple[Path, ...], output: OutputFormat
) -> int:
    """Print what changes for each service; writes nothing."""
    import asyncio

    return asyncio.run(
        _plan_or_apply(cluster, namespace, manifests, parallel=0, timeout=MIGRATE_SECONDS, output=output)
    )


@command.command(short_help="change services over while they serve")
@credential_flags
@_scope
@click.option(
    "--parallel",
    type=WholeNumber(1, MIGRATED_SERVICES),
    default=2,
    metavar="NUMBER",
    help=f"services at a time, at most {MIGRATED_SERVICES}; each needs twice its pods (default: 2)",
)
@_timeout
@output_flag
def apply(
    *,
    cluster: ClusterFlags,
    namespace: tuple[str, ...],
    manifests: tuple[Path, ...],
    parallel: int,
    timeout: int,
    output: OutputFormat,
) -> int:
    """Change services over while they serve."""
    import asyncio

    return asyncio.run(_plan_or_apply(cluster, namespace, manifests, parallel=parallel, timeout=timeout, output=output))


@command.command(short_help="give all services back to KServe's controller")
@credential_flags
@_timeout
@output_flag
def back(*, cluster: ClusterFlags, timeout: int, output: OutputFormat) -> None:
    """Give all services back to KServe's controller."""
    import asyncio

    asyncio.run(_back(cluster, timeout, output))


async def _plan_or_apply(
    cluster: ClusterFlags,
    namespaces: tuple[str, ...],
    manifests: tuple[Path, ...],
    *,
    parallel: int,
    timeout: int,
    output: OutputFormat,
) -> int:
    """Print the plan if ``parallel`` is 0 or something is blocking, else carry it out; return the exit code."""
    import time

    from isvc.migrate import changeover
    from isvc.migrate.objects import LiveObjects
    from isvc.migrate.plan import Level
    from isvc.migrate.read import MigrationScope, make_plan

    scope = MigrationScope(namespaces, tuple(_objects_in(manifests)))
    async with cluster.connect() as (api, _):
        objects = LiveObjects(api)
        found = await make_plan(objects, scope, time.monotonic)
        if not parallel or found.worst is Level.BLOCKING:
            if output is not OutputFormat.TEXT:
                write_data(found.as_data(), output)
            for line in found.lines() if output is OutputFormat.TEXT else ():
                sys.stdout.write(f"{line}\n")
            return {Level.BLOCKING: EXIT_INVALID, Level.WARNING: EXIT_NO_EFFECT, Level.OK: 0}[found.worst]
        await changeover.apply(_session(objects, timeout, output), scope, parallel)
        return 0


def _objects_in(files: Sequence[Path]) -> Iterator[Manifest]:
    """Yield the objects in YAML files; raises UnusableInput."""
    from isvc.run.documents import documents_in
    from isvc.run.errors import UnusableInput
    from isvc.run.files import read_files

    for text in read_files(files):
        for document in documents_in(text):
            if not _is_object(document):
                raise UnusableInput(
                    f"{text.source}: a document is not a Kubernetes object with apiVersion, kind and metadata.name; "
                    "correct it, or name other files"
                )
            yield document


def _is_object(document: Any) -> bool:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    named = metadata.get("name") if isinstance(metadata, dict) else None
    return bool(named) and all(
        isinstance(one, str) for one in (named, document.get("apiVersion"), document.get("kind"))
    )


async def _back(cluster: ClusterFlags, timeout: int, output: OutputFormat) -> None:
    from isvc.migrate import changeover
    from isvc.migrate.objects import LiveObjects

    async with cluster.connect() as (api, _):
        await changeover.back(_session(LiveObjects(api), timeout, output))


def _session(objects: LiveObjects, timeout: int, output: OutputFormat) -> Session:
    import asyncio
    import time

    from isvc.migrate.session import Session

    return Session(objects, partial(_report, output), time.monotonic, asyncio.sleep, _now, patience=float(timeout))


def _report(output: OutputFormat, taken: StepTaken) -> None:
    if output is not OutputFormat.TEXT:
        data = {"step": taken.step.value, "services": [*taken.services], "message": taken.message}
        write_record({"at": _now(), **data}, output)
        return
    sys.stdout.write(f"{datetime.now(UTC).strftime('%H:%M:%S')} {taken.message}\n")
    sys.stdout.flush()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
