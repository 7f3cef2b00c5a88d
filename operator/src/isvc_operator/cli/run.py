"""``isvc run``: serve the InferenceServices of a file on this machine, without a cluster."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isvc_operator.cli.render import add_flags, usable
from isvc_operator.local.children import Rendered
from isvc_operator.local.errors import RunFailed, UnusableInput
from isvc_operator.local.files import read_bytes
from isvc_operator.local.run import Settings, request_once, serve, until_signal


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="serve InferenceServices on this machine, without a cluster")
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML with services and runtimes")
    parser.add_argument(
        "--pvc",
        action="append",
        default=[],
        metavar="CLAIM=DIR",
        help="folder to use for a PersistentVolumeClaim; may be repeated",
    )
    parser.add_argument("--http-port", type=_port, default=8080, help="port of the ingress (default: %(default)s)")
    parser.add_argument("--request", type=Path, metavar="FILE", help="send this file, print the response, and stop")
    parser.add_argument("--expect", metavar="JSON", help="with --request: fail unless the response equals this")
    add_flags(parser, env)
    parser.set_defaults(run=run_command, environment=env)


def run_command(arguments: argparse.Namespace) -> None:
    """Serve until stopped, or for one request. The processes' output goes to stderr, the response to stdout."""
    # Processes call each other by loopback, for which no certificate of a cluster is.
    services = usable([arguments.file], arguments, tls=False).rendered
    if not services:
        raise UnusableInput(f"{arguments.file} contains no InferenceService to serve")
    settings = Settings(_claims(arguments.pvc), arguments.http_port, arguments.environment)
    if arguments.request:
        _one_request(arguments, services, settings)
    elif arguments.expect:
        raise UnusableInput("--expect requires --request")
    else:
        sample = _sample(arguments.file)
        asyncio.run(
            until_signal(serve(services, settings, sample=sample, write=_to_stderr, announce=_to_stdout), _to_stderr)
        )


def _one_request(arguments: argparse.Namespace, services: Sequence[Rendered], settings: Settings) -> None:
    body, expected = read_bytes(arguments.request), _expected(arguments.expect)
    response = asyncio.run(until_signal(request_once(services, settings, body=body, write=_to_stderr), _to_stderr))
    if response is None:
        raise RunFailed("stopped before the response arrived")
    _to_stdout(response)
    if arguments.expect and not _equals(response, expected):
        raise RunFailed(f"the response is {response}, not {arguments.expect}")


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use a number from 1 to 65535")
    return int(text)


def _claims(flags: Sequence[str]) -> dict[str, Path]:
    claims = {}
    for flag in flags:
        claim, _, folder = flag.partition("=")
        if not claim or not folder:
            raise UnusableInput(f"--pvc {flag}: write --pvc CLAIM=DIR")
        if not Path(folder).is_dir():
            raise UnusableInput(f"--pvc {flag}: {folder} is not a folder")
        claims[claim] = Path(folder)
    return claims


def _sample(file: Path) -> str:
    """Return the sample request beside the service's YAML, for the command that is printed."""
    beside = file.with_name("sample.json")
    return str(beside) if beside.is_file() else "request.json"


def _expected(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise UnusableInput(f"--expect {text}: this is not JSON: {error}") from error


def _equals(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _to_stdout(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
