"""``isvc run``: serve models and InferenceServices on this machine, without a cluster."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from isvc.commands.files import (
    PATH,
    FileFlags,
    check_texts,
    file_flags,
    files_argument,
    print_findings,
    read_yaml,
    refuse,
)
from isvc.commands.names import is_name
from isvc.commands.values import WholeNumber
from isvc.run.errors import Interrupted, RunFailed, UnusableInput

if TYPE_CHECKING:
    from isvc.predict.payload import PredictPayload
    from isvc.run.check import Checked, CheckFinding
    from isvc.run.output import Output
    from isvc.run.service import Settings
    from isvc.run.watch import WatchedFiles
    from isvc_operator.manifests import ServiceKey

_SAMPLE = "sample.json"


T = TypeVar("T")


@click.command(short_help="serve models and services on this machine, without a cluster")
@files_argument
@click.option("--save", type=PATH, metavar="FILE", help="write the YAML that is made of models")
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
@click.option("-q", "--quiet", is_flag=True, help="print only failures, addresses and the response")
@click.option("-v", "--verbose", is_flag=True, help="print all lines of all processes, and whole tracebacks")
@file_flags
def command(
    *,
    files: tuple[Path, ...],
    save: Path | None,
    pvc: tuple[str, ...],
    image: tuple[str, ...],
    watch: bool,
    http_port: int,
    dashboard_port: int | None,
    request: Path | None,
    expect: str | None,
    quiet: bool,
    verbose: bool,
    flags: FileFlags,
) -> None:
    """Serve models and InferenceServices on this machine until stopped, or for one request, without a cluster.

    FILE is YAML with services and runtimes, a folder of it, or a model: a .pt, .pt2, .onnx or .mar file, or a folder
    with one of them or with a handler.py. Of a model, the YAML is made and printed.

    \b
    isvc run resnet.onnx
    isvc run largest/largest --watch
    isvc run services/ transformer.yaml --pvc models=volume

    The output of the processes goes to stderr, the response to stdout.
    """
    from isvc.run.models import HEAD, check_loadable, is_without_yaml, unused_config, without_yaml_below, yaml_of
    from isvc.run.output import Verbosity, new_output
    from isvc.run.ports import require_free
    from isvc.run.run import serve
    from isvc.run.service import Settings

    models = [file for file in files if is_without_yaml(file)]
    written = [file for file in files if file not in models]
    samples: dict[ServiceKey, Path] = {}
    told: list[CheckFinding] = []

    def read() -> Checked:
        made = [yaml_of(model) for model in models]
        for model in models:
            check_loadable(model)
        checked = check_texts([*made, *read_yaml(written)], flags, here=True)
        print_findings(finding for finding in checked.findings if finding not in told)
        told[:] = checked.findings  # what is so after an edit as well is not told again
        if not checked.rendered and not checked.refused.lines:
            raise UnusableInput(f"{', '.join(map(str, files))} contains no InferenceService to serve")
        samples.update(_samples(checked))
        return checked

    given = [path for path in (*files, flags.runtimes, flags.config_dir) if path]
    inputs = _watched(given, read) if watch else None
    checked = read()
    if not checked.usable or request:
        refuse(checked)
    environment = {**os.environ, **({"SERVER_LOG_LEVEL": "DEBUG"} if verbose else {})}
    settings = Settings(_claims(pvc), http_port, environment, _images(image))
    _refuse_both(watch=watch, request=request, expect=expect, quiet=quiet, verbose=verbose)
    payload, expected = _payload(request, checked) if request else None, _expected(expect)
    verbosity = Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.NORMAL
    text = HEAD + "---\n".join(yaml_of(model).content for model in models) if models else ""
    if save:
        _check_new(save, text)
    for port, flag in ((http_port, "--http-port"), (dashboard_port, "--dashboard-port")):
        if port:
            require_free(port, flag)
    if save:
        _save(save, text)
    with new_output(verbosity) as output:
        if text:
            output.note(text)
        for line in filter(None, (*map(unused_config, models), *map(without_yaml_below, () if pvc else written))):
            output.say(line)
        if payload is not None:
            response = _one_request(payload, checked, settings, output)
            if expect and not _equals(response, expected):
                raise RunFailed(f"the response is {response}, not {expect}")
        else:
            work = serve(
                checked,
                settings,
                samples=samples,
                output=output,
                inputs=inputs,
                dashboard_port=dashboard_port or 0,
            )
            _run(work, output)


def _refuse_both(*, watch: bool, request: Path | None, expect: str | None, quiet: bool, verbose: bool) -> None:
    if request and watch:
        raise UnusableInput("--watch and --request cannot be used together; leave out one of them")
    if expect and not request:
        raise UnusableInput("--expect requires --request")
    if quiet and verbose:
        raise UnusableInput("--quiet and --verbose cannot be used together; leave out one of them")


def _run(work: Coroutine[Any, Any, T], output: Output) -> T | None:
    """Return the result of ``work``, or None if SIGTERM has stopped it."""
    import asyncio

    from isvc.run.run import until_signal

    try:
        return asyncio.run(until_signal(work, output))
    except Interrupted:
        raise click.Abort from None


def _watched(files: Sequence[Path], read: Callable[[], Checked]) -> WatchedFiles:
    from isvc.run.watch import WatchedFiles

    return WatchedFiles(files, read, read_at=time.time())


def _payload(request: Path, checked: Checked) -> PredictPayload:
    """Return what `isvc predict` would send, and as v1 what it would not: a server says what it lacks."""
    from isvc.inference.protocol import InferenceProtocol
    from isvc.limits import BENCH_BODY_BYTES
    from isvc.predict.errors import UnusableRequest
    from isvc.predict.payload import PredictPayload, of_json
    from isvc.run.files import read_bytes

    if len(checked.usable) != 1:
        raise UnusableInput(f"--request requires one InferenceService, and there are {len(checked.usable)}")
    content = read_bytes(request, BENCH_BODY_BYTES)
    try:
        return of_json(content, None)
    except UnusableRequest:
        return PredictPayload(InferenceProtocol.V1, content)


def _one_request(payload: PredictPayload, checked: Checked, settings: Settings, output: Output) -> str:
    from isvc.run.run import request_once

    response = _run(request_once(checked, settings, payload=payload, output=output), output)
    if response is None:
        raise click.Abort
    output.show(response)
    return response


def _claims(flags: Sequence[str]) -> dict[str, Path]:
    claims: dict[str, Path] = {}
    for flag in flags:
        claim, _, folder = flag.partition("=")
        if not claim or not folder:
            raise UnusableInput(f"--pvc {flag}: write --pvc CLAIM=DIR")
        if not is_name(claim):
            raise UnusableInput(f"--pvc {flag}: {claim!r} cannot be the name of a PersistentVolumeClaim")
        if not Path(folder).is_dir():
            raise UnusableInput(f"--pvc {flag}: {folder} is not a folder")
        if claim in claims:
            raise UnusableInput(f"--pvc {flag}: {claim} has the folder {claims[claim]} already; name one of them")
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


def _check_new(file: Path, text: str) -> None:
    if not text:
        raise UnusableInput(f"--save {file}: each FILE has its YAML already; leave --save out")
    if os.path.lexists(file):
        raise UnusableInput(f"--save {file}: the file exists already; name another one")


def _save(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UnusableInput(f"--save {file}: {error.strerror}") from error


def _samples(checked: Checked) -> dict[ServiceKey, Path]:
    """Return the sample request in or beside each service's YAML or model, for the command that is printed."""
    from isvc_operator.manifests import ServiceKey

    samples = {}
    for key, name in checked.files.items():
        near = (Path(name) / _SAMPLE, Path(name).parent / _SAMPLE)
        if sample := next((file for file in near if file.is_file()), None):
            samples[ServiceKey(key.namespace, key.name)] = sample
    return samples


def _expected(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableInput(f"--expect {text}: this is not JSON: {error}") from error


def _equals(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False
