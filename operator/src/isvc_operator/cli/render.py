"""``isvc render``: print the children that the operator would create, without a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from isvc_operator.cli.exit_codes import EXIT_NO_EFFECT
from isvc_operator.handlers.configuration import read_data
from isvc_operator.local.check import Checked, Severity, check
from isvc_operator.local.documents import parse_documents
from isvc_operator.local.errors import UnusableInput
from isvc_operator.local.files import read_files, read_runtimes
from isvc_operator.manifests import Manifest


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command."""
    parser = commands.add_parser("render", help="print the objects that the operator would create")
    add_files(parser)
    add_flags(parser, env)
    parser.set_defaults(run=run_command)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the argument that ``isvc render`` and ``isvc validate`` share."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="YAML with services and what they are made from; a folder of such files, or - for the standard input",
    )


def add_flags(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Add the flags that ``isvc render``, ``isvc validate`` and ``isvc run`` share."""
    parser.add_argument(
        "--namespace", default="default", help="namespace of objects that name none (default: %(default)s)"
    )
    parser.add_argument(
        "--runtimes", type=Path, metavar="DIR", help="folder of runtimes to use instead of the shipped ones"
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        default=env.get("CONFIG_DIR"),
        help="folder with the keys of inferenceservice-config as files (default: that ConfigMap in FILE) [CONFIG_DIR]",
    )


def run_command(arguments: argparse.Namespace) -> int:
    """Print the children of every service; return the exit code."""
    checked = usable(arguments.files, arguments)
    for rendered in checked.rendered:
        yaml.safe_dump_all(map(_without_owner, rendered.children), sys.stdout, explicit_start=True, sort_keys=False)
    return EXIT_NO_EFFECT if checked.texts(Severity.NO_EFFECT) else 0


def usable(files: list[Path], arguments: argparse.Namespace, *, tls: bool = True) -> Checked:
    """Render the services in the files, and print what has no effect; raises UnusableInput if one cannot be served.

    ``tls``: pods serve TLS if that is asked for.
    """
    checked = check_files(files, arguments, tls=tls)
    for finding in checked.findings:
        if finding.severity in (Severity.NO_EFFECT, Severity.NOTE):
            sys.stderr.write(f"isvc: {finding.severity.value}: {finding.text}\n")
    if errors := checked.texts(Severity.ERROR, Severity.NOT_CHECKED):
        raise UnusableInput("\nisvc: ".join(errors))
    return checked


def check_files(files: list[Path], arguments: argparse.Namespace, *, tls: bool = True) -> Checked:
    """Check the files with the runtimes and the configuration that the flags name."""
    installed = parse_documents(read_runtimes(arguments.runtimes), arguments.namespace).runtimes
    settings = read_data(arguments.config_dir) if arguments.config_dir else None
    return check(read_files(files), arguments.namespace, installed=installed, settings=settings, tls=tls)


def _without_owner(child: Manifest) -> Manifest:
    """Remove the owner reference, whose uid only a cluster knows, so that ``kubectl apply`` accepts the object."""
    metadata = {name: value for name, value in child["metadata"].items() if name != "ownerReferences"}
    return {**child, "metadata": metadata}
