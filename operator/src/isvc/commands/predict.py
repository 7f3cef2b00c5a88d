"""``isvc predict``: send a prediction request to a service, wherever it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import service_names
from isvc.commands.exit_codes import EXIT_FAILED
from isvc.commands.names import ServiceName
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, stderr_note, write_data, write_line
from isvc.commands.target import TargetFlags, content_of, target_flags
from isvc.commands.values import Text, WholeNumber, refuse, without_at
from isvc.limits import PREDICT_BODY_BYTES, PREDICT_SECONDS
from isvc.predict.errors import UnusableRequest

if TYPE_CHECKING:
    from isvc.inference.protocol import InferenceProtocol
    from isvc.predict.answer import Answer
    from isvc.predict.payload import File, PredictPayload

_RAISED = 500  # by a handler
_REFUSED = (400, 422)  # by a server that cannot read it, or whose model does not take it
_NO_SUCH_PATH = 404
_SAMPLE_BYTES = 200  # of a sample that are shown


@click.command(short_help="send a prediction request to a service")
@click.argument("name", type=ServiceName(), metavar="NAME", shell_complete=service_names)
@click.option("-d", "--data", metavar="JSON|@FILE|-", help="JSON to send; @FILE reads a file, - the standard input")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="file to send, such as an image; may be repeated",
)
@click.option(
    "--protocol",
    type=click.Choice(("v1", "v2", "torchserve")),
    help="protocol (default: what the data shows, else the service declares; of files torchserve's /predictions)",
)
@click.option("--port-forward", is_flag=True, help="reach a pod through the API server; needs no ingress")
@click.option(
    "--host", type=Text(), metavar="HOST", help="with --url: the host to ask for (default: NAME.NAMESPACE.example.com)"
)
@click.option(
    "--timeout",
    type=WholeNumber(1, PREDICT_SECONDS),
    default=60,
    metavar="SECONDS",
    help="for the answer (default: 60)",
)
@target_flags
@output_flag
def command(
    *,
    name: str,
    data: str | None,
    files: tuple[str, ...],
    protocol: str | None,
    port_forward: bool,
    host: str | None,
    timeout: int,
    target: TargetFlags,
    output: OutputFormat,
) -> int:
    """Send a prediction request to the InferenceService NAME.

    Its address, protocol and model are found. The answer goes to stdout, the time and its parts to stderr. Without
    --data and --file, a sample is sent: that of isvc run, or one that is made from what the model says of its inputs.

    \b
    isvc predict bert
    isvc predict bert -d @sample.json
    isvc predict densenet161 -f kitten.jpg
    isvc predict bert -d '{"instances": [1]}' --port-forward
    isvc predict bert -d @sample.json --url http://127.0.0.1:8080
    """
    import asyncio

    given = replace(target, port_forward=port_forward, host=host)
    given.check()
    make = _payload(data, files, protocol)
    answer, trouble = asyncio.run(_predict(name, given, make, timeout=timeout))
    code = _write(answer, trouble, output)
    if make is None and answer.status in (_RAISED, *_REFUSED):
        stderr_note("the sample may not fit the model: give a request with --data or --file")
    if files and answer.status == _RAISED:
        stderr_note("TorchServe's own handlers take --file FILE or --file data=FILE, without --protocol v1")
    if answer.status in _REFUSED and len(files) == 1 and Path(files[0]).suffix == ".json" and "=" not in files[0]:
        stderr_note(f"--file sends {files[0]} as it is; to send it as a request of v1 or v2, write -d @{files[0]}")
    return code


def _payload(
    data: str | None, files: tuple[str, ...], protocol: str | None
) -> Callable[[InferenceProtocol | None], PredictPayload] | None:
    """Read what is sent; return what makes it a request for a service that declares a protocol.

    None without anything to send.
    """
    from isvc.inference.protocol import InferenceProtocol
    from isvc.predict.payload import of_files, of_json

    wanted = InferenceProtocol(protocol) if protocol else None
    if data is not None and files:
        raise UnusableRequest("give the request with --data or with --file, not with both")
    if data is None and not files:
        refuse("is that of the request: add --data or --file, or leave it out.", protocol=protocol)
        return None
    if data is None:
        form = of_files(_files(files), wanted)
        return lambda _: form
    content = content_of(data, PREDICT_BODY_BYTES)
    try:
        of_json(content, wanted)  # what is not a request is said before a cluster is asked
    except UnusableRequest as error:
        raise UnusableRequest(without_at(data) or str(error)) from error
    return lambda declared: of_json(content, wanted, declared)


def _files(flags: Sequence[str]) -> list[File]:
    from isvc.predict.payload import File
    from isvc.run.files import read_bytes

    found, left = [], PREDICT_BODY_BYTES
    for flag in flags:
        name, equals, path = flag.partition("=")
        if not equals or Path(flag).is_file():
            name, path = "", flag
        found.append(File(name, Path(path).name, read_bytes(Path(path), left)))
        left -= len(found[-1].content)
    return found


async def _predict(
    name: str,
    target: TargetFlags,
    make: Callable[[InferenceProtocol | None], PredictPayload] | None,
    *,
    timeout: int,
) -> tuple[Answer, str]:
    """Return the answer, and what is wrong with the service."""
    from isvc_operator.text import one_line

    async with target.prepare(name, make, timeout=timeout) as (service, model, payload):
        if not make:
            stderr_note(f"without --data, a sample is sent: {one_line(payload.body.decode().strip(), _SAMPLE_BYTES)}")
        return await service.predict(model, payload), service.target.trouble


def _write(answer: Answer, trouble: str, output: OutputFormat) -> int:
    """Print the answer, and of one that is none also what is wrong with the service; return the exit code."""
    if output is not OutputFormat.TEXT:
        write_data(answer.as_data(), output)
    elif answer.succeeded:
        _write_body(answer)
    if answer.succeeded:
        write_line(Styled(answer.timing(), Style.FAINT), stream=sys.stderr)
        return 0
    why = answer.problem()
    if trouble and (answer.status >= _RAISED or answer.status == _NO_SUCH_PATH):
        why = f"{why}; {trouble}"
    sys.stderr.write(f"isvc: {answer.url} returned {answer.status}: {why}\n")
    return EXIT_FAILED


def _write_body(answer: Answer) -> None:
    """Print the body: as it is to a file or a pipe, on a terminal only text, without what controls it."""
    from isvc_operator.text import one_line, visible

    if not sys.stdout.isatty():
        sys.stdout.buffer.write(answer.body)
        sys.stdout.buffer.flush()
        if not answer.body.endswith(b"\n") and os.path.sameopenfile(1, 2):  # the time follows in the same place
            sys.stderr.write("\n")
    elif (text := answer.text()) is not None:
        sys.stdout.write(f"{visible(text).rstrip()}\n")
    else:
        kind = one_line(answer.content_type)
        stderr_note(
            f"the answer is {len(answer.body):,} bytes of {kind}, and no text; send it to a file: isvc … > FILE"
        )
