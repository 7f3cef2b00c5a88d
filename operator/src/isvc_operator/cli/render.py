"""``isvc render``: print the children that the operator would create, without a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.config import parse_config
from isvc_operator.handlers.configuration import read_data
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.local.children import Rendered, render_services, warnings, warnings_of_rendered
from isvc_operator.local.documents import parse_documents
from isvc_operator.local.files import read_files, read_runtimes
from isvc_operator.local.objects import configuration_in
from isvc_operator.manifests import Manifest
from isvc_operator.text import one_line


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command."""
    parser = commands.add_parser("render", help="print the objects that the operator would create")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="YAML with services and runtimes")
    add_flags(parser, env)
    parser.set_defaults(run=run_command)


def add_flags(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Add the flags that ``isvc render`` and ``isvc run`` share."""
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


def run_command(arguments: argparse.Namespace) -> None:
    """Print the children of every service, and warnings to stderr."""
    for rendered in render(arguments.files, arguments):
        yaml.safe_dump_all(map(_without_owner, rendered.children), sys.stdout, explicit_start=True, sort_keys=False)


def render(files: list[Path], arguments: argparse.Namespace) -> list[Rendered]:
    """Render the services in the files."""
    given = parse_documents(read_files(files), arguments.namespace)
    installed = parse_documents(read_runtimes(arguments.runtimes), arguments.namespace)
    data = read_data(arguments.config_dir) if arguments.config_dir else configuration_in(given.objects)
    config = parse_config(data)
    rendered = render_services(given, installed.runtimes, config)
    ignored = (f"ConfigMap {CONFIG_MAP}: no effect: {setting}" for setting in ignored_settings(data))
    for warning in (*ignored, *warnings(given, config), *warnings_of_rendered(rendered)):
        sys.stderr.write(f"isvc: {one_line(warning)}\n")
    return rendered


def _without_owner(child: Manifest) -> Manifest:
    """Remove the owner reference, whose uid only a cluster knows, so that ``kubectl apply`` accepts the object."""
    metadata = {name: value for name, value in child["metadata"].items() if name != "ownerReferences"}
    return {**child, "metadata": metadata}
