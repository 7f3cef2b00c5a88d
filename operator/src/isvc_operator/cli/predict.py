"""``isvc predict``: send a prediction request to a service, wherever it runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc_operator.cli.cluster import ClusterFlags, cluster_flags
from isvc_operator.cli.exit_codes import EXIT_FAILED
from isvc_operator.cli.names import ServiceName
from isvc_operator.cli.output import Output, Style, Styled, output_flag, write_data, write_line
from isvc_operator.cli.values import WholeNumber
from isvc_operator.limits import PREDICT_SECONDS
from isvc_operator.predict.errors import UnusableRequest

if TYPE_CHECKING:
    from isvc_operator.predict.answer import Answer
    from isvc_operator.predict.payload import Payload
    from isvc_operator.predict.target import Target

_STANDARD_INPUT = "-"


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
@click.argument("name", type=ServiceName(), metavar="NAME")
@click.option("-d", "--data", metavar="JSON|@FILE|-", help="JSON to send; @FILE reads a file, - the standard input")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="file to send, such as an image; may be repeated",
)
@click.option("--model", metavar="NAME", help="model (default: the service's only one)")
@click.option(
    "--protocol",
    type=click.Choice(("v1", "v2", "torchserve")),
    help="protocol (default: that of the data's shape; for files torchserve, which is /predictions)",
)
@click.option("--address", metavar="HOST[:PORT]", help="address of the ingress (default: what it has published)")
@click.option("--port-forward", is_flag=True, help="reach a pod through the API server; needs no ingress")
@click.option("--url", metavar="URL", help="use no cluster, but this ingress (isvc run's) or service")
@click.option("--host", metavar="HOST", help="with --url: the host to ask for (default: NAME.NAMESPACE.example.com)")
@click.option("--cacert", metavar="FILE", help="certificates to trust (default: those of the system)")
@click.option(
    "--timeout",
    type=WholeNumber(1, PREDICT_SECONDS),
    default=60,
    metavar="SECONDS",
    help="for the answer (default: 60)",
)
@cluster_flags
@output_flag
def command(*, data: str | None, files: tuple[str, ...], protocol: str | None, output: Output, **flags: Any) -> int:
    """Send a prediction request to the InferenceService NAME.

    Its address, protocol and model are found. The answer goes to stdout, the time and its parts to stderr.

    \b
    isvc predict bert -d @sample.json
    isvc predict densenet161 -f kitten.jpg
    isvc predict bert -d '{"instances": [1]}' --port-forward
    isvc predict bert -d @sample.json --url http://127.0.0.1:8080
    """
    import asyncio

    payload = _payload(data, files, protocol)
    answer = asyncio.run(_predict(_Flags(**flags), payload))
    return _write(answer, output)


def _payload(data: str | None, files: tuple[str, ...], protocol: str | None) -> Payload:
    from isvc_operator.predict.payload import Protocol, of_files, of_json

    wanted = Protocol(protocol) if protocol else None
    if (data is None) == (not files):
        raise UnusableRequest("give the request with --data or with --file, such as --data @request.json")
    return of_files([_file(flag) for flag in files], wanted) if data is None else of_json(_content(data), wanted)


def _content(data: str) -> bytes:
    if data == _STANDARD_INPUT:
        return sys.stdin.buffer.read()
    return _read(data[1:]) if data.startswith("@") else data.encode()


def _file(flag: str) -> Any:
    from isvc_operator.predict.payload import File

    name, equals, path = flag.partition("=")
    if not equals or Path(flag).is_file():
        name, path = "", flag
    return File(name, Path(path).name, _read(path))


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnusableRequest(f"{path} cannot be read: {error.strerror}") from error


async def _predict(flags: _Flags, payload: Payload) -> Answer:
    from isvc_operator.predict.send import caller

    async with _target(flags) as target, caller(target, flags.timeout, flags.cacert) as service:
        return await service.predict(flags.model or await service.model(flags.name), payload)


@asynccontextmanager
async def _target(flags: _Flags) -> AsyncIterator[Target]:
    from isvc_operator.predict.target import of_url

    if flags.url:
        yield of_url(flags.url, flags.name, flags.cluster.namespace or "default", flags.host)
        return

    from isvc_operator.predict.cluster import find_service, find_target, forwarded_target

    async with flags.cluster.connect() as (api, namespace):
        service = await find_service(api, namespace, flags.name)
        if flags.port_forward:
            async with forwarded_target(api, service) as target:
                yield target
        else:
            yield await find_target(api, service, flags.address)


def _write(answer: Answer, output: Output) -> int:
    """Print the answer; return the exit code."""
    if output is not Output.TEXT:
        write_data(answer.as_data(), output)
    elif answer.succeeded:
        _write_body(answer.body)
    if answer.succeeded:
        write_line(Styled(answer.timing(), Style.FAINT), stream=sys.stderr)
        return 0
    sys.stderr.write(f"isvc: {answer.url} returned {answer.status}: {answer.problem()}\n")
    return EXIT_FAILED


def _write_body(body: bytes) -> None:
    """Print the body: as it is to a file or a pipe, on a terminal without what controls it."""
    from isvc_operator.text import visible

    if sys.stdout.isatty():
        sys.stdout.write(f"{visible(body.decode(errors='replace')).rstrip()}\n")
    else:
        sys.stdout.buffer.write(body if body.endswith(b"\n") else body + b"\n")
        sys.stdout.buffer.flush()
