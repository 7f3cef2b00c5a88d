"""``isvc run``: serve the InferenceServices of a file on this machine, without a cluster."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.files import PATH, FileFlags, file_flags, usable
from isvc.commands.names import is_name
from isvc.commands.values import WholeNumber
from isvc.run.errors import RunFailed, UnusableInput

if TYPE_CHECKING:
    from isvc.run.children import Rendered
    from isvc.run.output import Output
    from isvc.run.service import Settings
    from isvc.run.watch import WatchedFiles


@click.command(short_help="serve InferenceServices on this machine, without a cluster")
@click.argument("file", type=PATH, metavar="FILE")
@click.option(
    "--pvc", multiple=True, metavar="CLAIM=DIR", help="folder to use for a PersistentVolumeClaim; may be repeated"
)
@click.option(
    "--image",
    multiple=True,
    metavar="NAME=COMMAND",
    help="command to run for an image, written with or without its tag; may be repeated",
)
@click.option("--watch", is_flag=True, help="replace the pods when the YAML, a model or a program has changed")
@click.option(
    "--http-port",
    type=WholeNumber(1, 65535),
    default=8080,
    metavar="PORT",
    help="port of the ingress, a number from 1 to 65535 (default: 8080)",
)
@click.option(
    "--dashboard-port",
    type=WholeNumber(1, 65535),
    metavar="PORT",
    help="port of the dashboard on 127.0.0.1, a number from 1 to 65535 (default: a free one)",
)
@click.option("--request", type=PATH, metavar="FILE", help="send this file, print the response, and stop")
@click.option("--expect", metavar="JSON", help="with --request: fail unless the response equals this")
@file_flags
def command(
    *,
    file: Path,
    pvc: tuple[str, ...],
    image: tuple[str, ...],
    watch: bool,
    http_port: int,
    dashboard_port: int | None,
    request: Path | None,
    expect: str | None,
    flags: FileFlags,
) -> None:
    """Serve the InferenceServices of FILE on this machine until stopped, or for one request, without a cluster.

    FILE is YAML with services and runtimes. The output of their processes goes to stderr, the response to stdout.
    """
    import asyncio

    from isvc.run.output import new_output
    from isvc.run.run import serve, until_signal
    from isvc.run.service import Settings

    def read() -> Sequence[Rendered]:
        # Processes call each other by loopback, for which no certificate of a cluster is.
        services = usable([file], flags, tls=False).rendered
        if not services:
            raise UnusableInput(f"{file} contains no InferenceService to serve")
        return services

    given = [path for path in (file, flags.runtimes, flags.config_dir) if path]
    inputs = _watched(given, read) if watch else None
    services = read()
    settings = Settings(_claims(pvc), http_port, os.environ, _images(image))
    if request and watch:
        raise UnusableInput("--watch and --request cannot be used together; leave out one of them")
    if expect and not request:
        raise UnusableInput("--expect requires --request")
    with new_output() as output:
        if request:
            _one_request(request, expect, services, settings, output)
        else:
            work = serve(
                services,
                settings,
                sample=_sample(file),
                output=output,
                inputs=inputs,
                dashboard_port=dashboard_port or 0,
            )
            asyncio.run(until_signal(work, output))


def _watched(files: Sequence[Path], read: Callable[[], Sequence[Rendered]]) -> WatchedFiles:
    from isvc.run.watch import WatchedFiles

    return WatchedFiles(files, read, read_at=time.time())


def _one_request(
    request: Path, expect: str | None, services: Sequence[Rendered], settings: Settings, output: Output
) -> None:
    import asyncio

    from isvc.limits import BENCH_BODY_BYTES
    from isvc.run.files import read_bytes
    from isvc.run.run import request_once, until_signal

    body, expected = read_bytes(request, BENCH_BODY_BYTES), _expected(expect)
    response = asyncio.run(until_signal(request_once(services, settings, body=body, output=output), output))
    if response is None:
        raise RunFailed("stopped before the response arrived")
    output.show(response)
    if expect and not _equals(response, expected):
        raise RunFailed(f"the response is {response}, not {expect}")


def _claims(flags: Sequence[str]) -> dict[str, Path]:
    claims = {}
    for flag in flags:
        claim, _, folder = flag.partition("=")
        if not claim or not folder:
            raise UnusableInput(f"--pvc {flag}: write --pvc CLAIM=DIR")
        if not is_name(claim):
            raise UnusableInput(f"--pvc {flag}: {claim!r} cannot be the name of a PersistentVolumeClaim")
        if not Path(folder).is_dir():
            raise UnusableInput(f"--pvc {flag}: {folder} is not a folder")
        claims[claim] = Path(folder)
    return claims


def _images(flags: Sequence[str]) -> dict[str, tuple[str, ...]]:
    images = {}
    for flag in flags:
        image, _, command = flag.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise UnusableInput(f"--image {flag}: the command cannot be read: {error}") from error
        if not image or not words:
            raise UnusableInput(
                f"--image {flag}: write --image 'NAME=COMMAND', such as --image 'my/image=python model.py'"
            )
        images[image] = words
    return images


def _sample(file: Path) -> Path | None:
    """Return the sample request beside the service's YAML, for the command that is printed."""
    beside = file.with_name("sample.json") if file.name else file / "sample.json"
    return beside if beside.is_file() else None


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
