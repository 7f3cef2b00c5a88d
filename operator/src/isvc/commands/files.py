"""The files that ``isvc render``, ``validate`` and ``run`` take, the flags that go with them, and what is in them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.names import Namespace

if TYPE_CHECKING:
    from isvc.run.check import Checked

PATH = click.Path(path_type=Path)


@dataclass(frozen=True)
class FileFlags:
    """What files are read with: the namespace of objects that name none, folders of runtimes and of configuration."""

    namespace: str = "default"
    runtimes: Path | None = None
    config_dir: Path | None = None


def files_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``files``."""
    return click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")(command)


def file_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags; the command gets them as ``flags``."""

    @click.option(
        "-n",
        "--namespace",
        default="default",
        type=Namespace(),
        metavar="NAME",
        help="namespace of objects that name none (default: default)",
    )
    @click.option("--runtimes", type=PATH, metavar="DIR", help="folder of runtimes to use instead of the shipped ones")
    @click.option(
        "--config-dir",
        type=PATH,
        envvar="CONFIG_DIR",
        metavar="DIR",
        help="folder with the keys of inferenceservice-config as files (default: that ConfigMap in FILE) [CONFIG_DIR]",
    )
    @functools.wraps(command)
    def with_flags(*, namespace: str, runtimes: Path | None, config_dir: Path | None, **others: Any) -> Any:
        return command(flags=FileFlags(namespace, runtimes, config_dir), **others)

    return with_flags


def usable(files: Sequence[Path], flags: FileFlags, *, tls: bool = True) -> Checked:
    """Render the services in the files, and print what has no effect; raises UnusableInput if one cannot be served.

    ``tls``: pods serve TLS if that is asked for.
    """
    from isvc.run.check import Severity
    from isvc.run.errors import UnusableInput

    checked = check_files(files, flags, tls=tls)
    for finding in checked.findings:
        if finding.severity in (Severity.NO_EFFECT, Severity.NOTE):
            sys.stderr.write(f"isvc: {finding.severity.value}: {finding.text}\n")
    if errors := checked.texts(Severity.ERROR, Severity.NOT_CHECKED):
        raise UnusableInput("\nisvc: ".join(errors))
    return checked


def check_files(files: Sequence[Path], flags: FileFlags, *, tls: bool = True) -> Checked:
    """Check the files with the runtimes and the configuration that the flags name."""
    from isvc.run.check import check
    from isvc.run.documents import parse_documents
    from isvc.run.files import read_files, read_runtimes
    from isvc_operator.handlers.configuration import read_data

    installed = parse_documents(read_runtimes(flags.runtimes), flags.namespace).runtimes
    settings = read_data(flags.config_dir) if flags.config_dir else None
    return check(read_files(list(files)), flags.namespace, installed=installed, settings=settings, tls=tls)
