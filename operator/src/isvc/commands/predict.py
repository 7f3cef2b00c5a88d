"""``isvc predict``: send a prediction request to a service, wherever it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.cluster import ClusterFlags, refuse_credentials, service_flags, service_names
from isvc.commands.exit_codes import EXIT_FAILED
from isvc.commands.names import ServiceName
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, stderr_note, write_data, write_line
from isvc.commands.values import Text, WholeNumber, refuse, without_at
from isvc.limits import PREDICT_BODY_BYTES, PREDICT_SECONDS
from isvc.predict.errors import UnusableRequest

if TYPE_CHECKING:
    from isvc.inference.protocol import InferenceProtocol
    from isvc.predict.answer import Answer
    from isvc.predict.payload import File, PredictPayload
    from isvc.predict.target import Target

_STANDARD_INPUT = "-"
_RAISED = 500  # by a handler
_REFUSED = (400, 422)  # by a server that cannot read it, or whose model does not take it
_NO_SUCH_PATH = 404
_SAMPLE_BYTES = 200  # of a sample that are shown


@dataclass(frozen=True)
class _Flags:
    """Where to send the request to, and how."""

    name: str
    cluster: ClusterFlags
    model: str | None
    address: str | None
    port_forward: bool
    url: str | None
    host: str | None
    cacert: str | None
    timeout: int


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
@click.option("--model", type=Text(), metavar="NAME", help="model (default: the service's only one)")
@click.option(
    "--protocol",
    type=click.Choice(("v1", "v2", "torchserve")),
    help="protocol (default: what the data shows, else the service declares; of files torchserve's /predictions)",
)
@click.option(
    "--address", type=Text(), metavar="HOST[:PORT]", help="address of the ingress (default: what it has published)"
)
@click.option("--port-forward", is_flag=True, help="reach a pod through the API server; needs no ingress")
@click.option("--url", type=Text(), metavar="URL", help="use no cluster, but this ingress (isvc run's) or service")
@click.option(
    "--host", type=Text(), metavar="HOST", help="with --url: the host to ask for (default: NAME.NAMESPACE.example.com)"
)
@click.option("--cacert", metavar="FILE", help="certificates to trust (default: those of the system)")
@click.option(
    "--timeout",
    type=WholeNumber(1, PREDICT_SECONDS),
    default=60,
    metavar="SECONDS",
    help="for the answer (default: 60)",
)
@service_flags
@output_flag
def command(
    *, data: str | None, files: tuple[str, ...], protocol: str | None, output: OutputFormat, **flags: Any
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

    given = _Flags(**flags)
    _check(given)
    make = _payload(data, files, protocol)
    answer, trouble = asyncio.run(_predict(given, make, has_protocol=bool(protocol or files)))
    code = _write(answer, trouble, output)
    if make is None and answer.status in (_RAISED, *_REFUSED):
        stderr_note("the sample may not fit the model: give a request with --data or --file")
    if files and answer.status == _RAISED:
        stderr_note("TorchServe's own handlers take --file FILE or --file data=FILE, without --protocol v1")
    if answer.status in _REFUSED and len(files) == 1 and Path(files[0]).suffix == ".json" and "=" not in files[0]:
        stderr_note(f"--file sends {files[0]} as it is; to send it as a request of v1 or v2, write -d @{files[0]}")
    return code


def _check(given: _Flags) -> None:
    """Raise UsageError for flags of which one would have no effect."""
    if given.url:
        why = "is a way into a cluster: leave it out, or --url."
        refuse(why, address=given.address, port_forward=given.port_forward)
        refuse_credentials(why)
    else:
        refuse("is of the service at --url: leave it out, or add --url.", host=given.host)
    if given.cluster.local:
        why = "is another way than --local: leave out one of them."
        refuse(why, address=given.address, port_forward=given.port_forward, url=given.url)
    if given.port_forward:
        refuse("is another way than --port-forward: leave out one of them.", address=given.address)


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
    content = _content(data)
    try:
        of_json(content, wanted)  # what is not a request is said before a cluster is asked
    except UnusableRequest as error:
        raise UnusableRequest(without_at(data) or str(error)) from error
    return lambda declared: of_json(content, wanted, declared)


def _content(data: str) -> bytes:
    from isvc.run.files import bounded, read_bytes

    if data == _STANDARD_INPUT:
        return bounded(sys.stdin.buffer, "the standard input", PREDICT_BODY_BYTES)
    return read_bytes(Path(data[1:]), PREDICT_BODY_BYTES) if data.startswith("@") else data.encode()


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
    flags: _Flags, make: Callable[[InferenceProtocol | None], PredictPayload] | None, *, has_protocol: bool
) -> tuple[Answer, str]:
    """Return the answer, and what is wrong with the service."""
    from isvc.predict.send import caller
    from isvc_operator.text import one_line

    async with (
        _target(flags, has_protocol=has_protocol, samples=make is None) as target,
        caller(target, flags.timeout, flags.cacert) as service,
    ):
        model = flags.model or await service.model(flags.name)
        payload = make(target.protocol) if make else await service.sample(model)
        if not make:
            stderr_note(f"without --data, a sample is sent: {one_line(payload.body.decode().strip(), _SAMPLE_BYTES)}")
        return await service.predict(model, payload), target.trouble


@asynccontextmanager
async def _target(flags: _Flags, *, has_protocol: bool, samples: bool) -> AsyncIterator[Target]:
    from isvc.predict.target import declared_protocol, of_url

    if flags.url:
        yield of_url(flags.url, flags.name, flags.cluster.namespace or "default", flags.host)
        return

    from isvc.commands.seen.reading import local_target
    from isvc.predict.cluster import find_service, find_target, forwarded_target

    if local := await local_target(flags.cluster, flags.name, samples=samples):
        yield replace(local, protocol=None) if has_protocol else local
        return
    async with flags.cluster.connect() as (api, namespace):
        service = await find_service(api, namespace, flags.name)
        protocol = None if has_protocol else declared_protocol(service)
        if flags.port_forward:
            async with forwarded_target(api, service) as target:
                yield replace(target, protocol=protocol)
        else:
            yield replace(await find_target(api, service, flags.address), protocol=protocol)


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
