"""``isvc bench``: send requests to a server or a service, and say how long the responses took."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.cluster import ClusterFlags, refuse_credentials, service_flags, service_names
from isvc.commands.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from isvc.commands.names import ServiceName, is_url
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, write_data, write_line, write_table
from isvc.commands.values import PositiveNumber, Text, WholeNumber, refuse, without_at
from isvc.limits import BENCH_BODY_BYTES, BENCH_CONNECTIONS, BENCH_RATE, BENCH_REQUESTS, BENCH_SECONDS
from isvc.run.errors import UnusableInput

if TYPE_CHECKING:
    import ssl

    from isvc.bench.load import LoadRequest

_BAR, _LEAST_BAR, _BESIDE_BAR = 40, 5, 30  # characters
_BUSY = 0.9  # of a core: more than that of a client, which has one, and it was probably the slower side
_WAITED_MS = 1.0


@dataclass(frozen=True)
class _Flags:
    """What is asked for, as the flags have it."""

    cluster: ClusterFlags
    data: str | None
    method: str | None
    headers: tuple[str, ...]
    model: str | None
    address: str | None
    url: str | None
    timeout: float
    cacert: str | None
    insecure: bool


@click.command(short_help="measure how fast a server or a service responds")
@click.argument("target", type=ServiceName(or_url=True), metavar="URL|NAME", shell_complete=service_names)
@click.option(
    "-c",
    "--connections",
    type=WholeNumber(1, BENCH_CONNECTIONS),
    metavar="N",
    help="connections, each with one request at a time (default: 8; with --rate: as many as it takes, up to 256)",
)
@click.option(
    "-t",
    "--time",
    "seconds",
    type=PositiveNumber(BENCH_SECONDS),
    default=10,
    metavar="SECONDS",
    help=f"for how long requests are sent, at most {BENCH_SECONDS} (default: 10)",
)
@click.option(
    "-r",
    "--rate",
    type=PositiveNumber(BENCH_RATE),
    metavar="N",
    help=f"requests a second, at most {BENCH_RATE}, sent whatever comes back (default: a closed loop)",
)
@click.option(
    "--requests",
    type=WholeNumber(1, BENCH_REQUESTS),
    default=BENCH_REQUESTS,
    metavar="N",
    help=f"requests at most (default: {BENCH_REQUESTS:,})",
)
@click.option(
    "--timeout",
    type=PositiveNumber(BENCH_SECONDS),
    default=30,
    metavar="SECONDS",
    help="time until a request counts as failed (default: 30)",
)
@click.option("-d", "--data", metavar="TEXT|@FILE", help="body of each request; @FILE reads a file")
@click.option("-X", "--method", type=Text(), metavar="METHOD", help="with URL (default: POST with a body, else GET)")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME:VALUE", help="may be repeated; Host as well")
@click.option("--model", type=Text(), metavar="NAME", help="with NAME: model (default: the service's only one)")
@click.option(
    "--address", type=Text(), metavar="HOST[:PORT]", help="with NAME: ingress (default: the address it has published)"
)
@click.option(
    "--url", type=Text(), metavar="URL", help="with NAME: use no cluster, but this ingress (isvc run's) or service"
)
@click.option("--cacert", metavar="FILE", help="certificates to trust (default: those of the system)")
@click.option("-k", "--insecure", is_flag=True, help="with URL and https: accept any certificate")
@service_flags
@output_flag
def command(
    *,
    target: str,
    connections: int | None,
    seconds: float,
    rate: float | None,
    requests: int,
    output: OutputFormat,
    **flags: Any,
) -> int:
    """Send the same request to URL, or to the InferenceService NAME, and print how long the responses took.

    Of a service, the address, the protocol and the model are found, and without --data a sample is sent: that of isvc
    run, or one that is made from what the model says of its inputs.

    Without --rate, each connection sends its next request when it has its response. With --rate, requests are sent when
    they are due, and the time of a request counts from then, so a server that stalls is not spared (no coordinated
    omission). The exit code is 1 if a request failed.

    Ctrl-C ends the run, and prints what was measured until then.
    """
    import asyncio

    from isvc.bench.load import LoadPlan, run
    from isvc.bench.summary import document

    given = _Flags(**flags)
    _check(target, given)
    request = _of_url(target, given) if is_url(target) else asyncio.run(_of_service(target, given))
    plan = LoadPlan(
        connections=connections or (256 if rate else 8),
        seconds=seconds,
        requests=requests,
        rate=rate or 0,
        timeout=given.timeout,
    )
    if sys.stderr.isatty():
        write_line(Styled(f"sending requests for {seconds:g} s at most …", Style.FAINT), stream=sys.stderr)
    found = document(request.url, plan, run(request, plan, tls=_tls(given)))
    if output is OutputFormat.TEXT:
        _write(request.method, found)
    else:
        write_data(found, output)
    if found["interrupted"]:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if found["failed"] or not found["responses"] else 0


def _check(target: str, given: _Flags) -> None:
    """Raise UsageError for flags that would have no effect."""
    if is_url(target):
        why = "is of a service: leave it out, or give a NAME."
        refuse(
            why,
            model=given.model,
            address=given.address,
            url=given.url,
            namespace=given.cluster.namespace,
            local=given.cluster.local,
        )
        refuse_credentials(why)
        return
    refuse("is for a URL: a service is asked by POST. Leave it out.", method=given.method)
    refuse("is for a URL: leave it out, or name the service's authority with --cacert.", insecure=given.insecure)
    if given.cluster.local:
        refuse("is another way than --local: leave out one of them.", address=given.address, url=given.url)
    if given.url:
        why = "is of a service in a cluster: leave it out, or --url."
        refuse(why, address=given.address)
        refuse_credentials(why)


def _of_url(url: str, flags: _Flags) -> LoadRequest:
    from isvc.bench.load import load_request

    method = (flags.method or ("GET" if flags.data is None else "POST")).upper()
    headers = {"Content-Type": "application/json"} if flags.data is not None else {}
    return load_request(url, method=method, headers=_with(headers, flags.headers), body=_body(flags.data))


async def _of_service(name: str, flags: _Flags) -> LoadRequest:
    """Find where a service answers, and what its model takes, as `isvc predict` does."""
    from isvc.bench.load import load_request
    from isvc.commands.seen.reading import local_target
    from isvc.predict.cluster import find_service, find_target
    from isvc.predict.payload import of_json
    from isvc.predict.send import caller
    from isvc.predict.target import declared_protocol, of_url

    if flags.url:
        found = of_url(flags.url, name, flags.cluster.namespace or "default", None)
    elif local := await local_target(flags.cluster, name, samples=flags.data is None):
        found = local
    else:
        async with flags.cluster.connect() as (api, namespace):
            manifest = await find_service(api, namespace, name)
            protocol = declared_protocol(manifest)
            found = replace(await find_target(api, manifest, flags.address), protocol=protocol)
    async with caller(found, flags.timeout, flags.cacert) as service:
        model = flags.model or await service.model(name)
        payload = (
            await service.sample(model) if flags.data is None else of_json(_body(flags.data), None, found.protocol)
        )
    headers = _with({"Content-Type": payload.content_type, **found.headers()}, flags.headers)
    url = f"{found.url}{payload.protocol.path(model)}"
    return load_request(url, method="POST", headers=headers, body=payload.body)


def _with(headers: Mapping[str, str], given: Sequence[str]) -> dict[str, str]:
    """Add the headers that are given, which replace those of the same name."""
    added = dict(_header(text) for text in given)
    names = {name.lower() for name in added}
    return {name: value for name, value in headers.items() if name.lower() not in names} | added


def _body(data: str | None) -> bytes:
    if why := without_at(data):
        raise UnusableInput(why)
    if data is None or not data.startswith("@"):
        return (data or "").encode()
    from isvc.run.files import read_bytes

    return read_bytes(Path(data[1:]), BENCH_BODY_BYTES)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise UnusableInput(f"{text!r} cannot be a header; write NAME: VALUE")
    return name.strip(), value.strip()


def _tls(flags: _Flags) -> ssl.SSLContext:
    import ssl

    from isvc.predict.send import tls_of

    context = tls_of(flags.cacert)
    if flags.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _write(method: str, found: Mapping[str, Any]) -> None:
    how = f"{found['rate']:g} requests a second" if found["rate"] else f"{found['connections']} connections"
    write_line(Styled(f"{method} {found['url']}", Style.STRONG), f"({how})")
    rate = f"{found['responsesPerSecond']:,.1f} a second"
    write_line(f"{found['responses']:,} responses in {found['seconds']:.1f} s, {rate}")
    refused = {f"status {status}": count for status, count in found["statuses"].items() if status[0] != "2"}
    for what, count in {
        **refused, **found["errors"], "not sent: no connection was free": found["unsent"],
    }.items():  # fmt: skip
        if count:
            write_line(Styled(f"{count:,} failed:", Style.ERROR), what)
    for status, body in found["refusals"].items():
        write_line(f"the first with status {status} said:", body or "nothing")
    if found["interrupted"]:
        write_line(Styled("interrupted: this is what was measured until then", Style.WARNING))
    if not found["responses"]:
        return
    write_line("")
    times = {name.replace("_", "."): f"{value:.2f}" for name, value in found["latencyMs"].items()}
    write_table(["LATENCY", *times], [["ms", *times.values()]])
    write_line("")
    highest = max(row["count"] for row in found["histogram"])
    bar = min(_BAR, max(_LEAST_BAR, get_terminal_size().columns - _BESIDE_BAR))
    rows = [
        [f"{row['upToMs']:g} ms", f"{row['count']:,}", "█" * round(bar * row["count"] / highest)]
        for row in found["histogram"]
    ]
    write_table(["UP TO", "RESPONSES", ""], rows)
    write_line("")
    client = found["client"]
    cores = f"{client['cores']:.2f} cores, {client['cpuMicrosecondsPerRequest']:.0f} µs for each request"
    write_line(Styled(f"this client used {cores}", Style.FAINT))
    if client["cores"] > _BUSY:
        write_line(Styled("it was busy all the time: the server may be faster than this", Style.WARNING))
    if client["lateP99Ms"] > _WAITED_MS:
        late = f"1 % of the requests were sent {client['lateP99Ms']:.1f} ms late or more, which the latencies include"
        write_line(Styled(late, Style.FAINT))
