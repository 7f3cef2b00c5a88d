"""The files that ``isvc render``, ``validate`` and ``run`` take, the flags that go with them, and what is in them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from isvc.commands.names import Namespace

if TYPE_CHECKING:
    from isvc.run.check import Checked, CheckFinding
    from isvc.run.documents import YamlText

PATH = click.Path(path_type=Path)
# Of files that a handler loads; no runtime serves them alone.
_WEIGHTS: Final = (".safetensors", ".bin", ".ckpt", ".gguf", ".h5", ".keras", ".pkl", ".pickle", ".joblib", ".npz")

# Archives that a cluster unpacks when it downloads them; .tar.gz is served here as well.
_PACKED: Final = (".zip", ".tar", ".tgz", ".tar.bz2", ".tar.xz")


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


def usable(files: Sequence[Path], flags: FileFlags) -> Checked:
    """Render the services in the files, and print what has no effect; raises UnusableInput if one cannot be served."""
    checked = check_files(files, flags)
    print_findings(checked.findings)
    refuse(checked)
    return checked


def refuse(checked: Checked) -> None:
    """Raise UnusableInput if anything is refused."""
    from isvc.run.errors import unusable_because

    if checked.refused.lines:
        raise unusable_because(checked.refused.lines)


def print_findings(findings: Iterable[CheckFinding]) -> None:
    """Print what is not an error: what has no effect, and what is left out."""
    from isvc.run.check import Severity

    for finding in findings:
        if finding.severity in (Severity.MISSING, Severity.NO_EFFECT, Severity.NOTE):
            sys.stderr.write(f"isvc: {finding.severity.value}: {finding.text}\n")


def check_files(files: Sequence[Path], flags: FileFlags, *, needs_service: bool = False) -> Checked:
    """Check the files with the runtimes and the configuration that the flags name.

    ``needs_service``: files without a service are an error.
    """
    return check_texts(read_yaml(files), flags, needs_service=needs_service)


def read_yaml(files: Sequence[Path]) -> list[YamlText]:
    """Read the files, those in folders, and the standard input; raises UnusableInput for a model with what takes it."""
    from isvc.run.errors import UnusableInput
    from isvc.run.files import read_files

    for file in files:
        if file.exists() and (why := _why_no_yaml(file)):
            raise UnusableInput(f"{file} {why}")
    return read_files(files)


def _why_no_yaml(file: Path) -> str | None:
    """Return what a file or folder is instead, by its name, and what to type."""
    from isvc.run.errors import UnusableInput
    from isvc.run.models import handler_to_copy, is_without_yaml

    place, folder = quote(str(file)), f"isvc run {quote(str(file.parent))}"
    if file.suffix == ".py":
        return f"is Python, and no model; {_instead_of_module(file, folder)}"
    if file.suffix in _WEIGHTS:
        handler = f"a handler.py beside it{handler_to_copy(file.parent)}"
        return f"has weights, which a program loads; write {handler}, and name the folder: {folder}"
    if file.name.endswith(_PACKED):
        return "is an archive; unpack it, and name the folder that was in it"
    with suppress(UnusableInput):  # a folder of neither
        if is_without_yaml(file):
            return f"is a model, and not YAML; isvc inspect {place} says what it holds, and isvc run {place} serves it"
    return None


def _instead_of_module(file: Path, command: str) -> str:
    """Return what to serve instead of a Python file: its folder, if that is a model."""
    from isvc.run.errors import UnusableInput
    from isvc.run.models import is_without_yaml
    from model_archive.archive import ENDINGS
    from model_archive.formats import SUFFIXES

    with suppress(UnusableInput):  # a folder of neither
        if is_without_yaml(file.parent):
            return f"its folder is one: {command}"
    return (
        f"what is served is a file ({', '.join((*SUFFIXES, *ENDINGS))}), or a folder with a handler.py that loads the "
        "model, such as isvc new model NAME makes"
    )


def check_texts(
    texts: Sequence[YamlText], flags: FileFlags, *, here: bool = False, needs_service: bool = False
) -> Checked:
    """Check texts as ``check_files`` does those of files. ``here``: for a run on this machine, and not for a cluster.

    Processes call each other by loopback, for which no certificate of a cluster is.
    """
    from isvc.commands.mistakes import in_plain_words
    from isvc.run.check import check, paths_of_a_machine, without_models
    from isvc.run.documents import parse_documents
    from isvc.run.files import read_runtimes
    from isvc_operator.handlers.configuration import read_data

    installed = parse_documents(read_runtimes(flags.runtimes), flags.namespace).runtimes
    settings = read_data(flags.config_dir) if flags.config_dir else None
    checked = check(
        texts,
        flags.namespace,
        installed=installed,
        settings=settings,
        tls=not here,
        needs_service=needs_service,
    )
    if here:
        checked = without_models(checked)
    else:
        checked = replace(checked, findings=(*checked.findings, *paths_of_a_machine(checked)))
    return replace(checked, findings=in_plain_words(checked.findings, texts))
