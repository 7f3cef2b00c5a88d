"""``isvc bench``: send requests to a server or a service, and say how long the responses took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.cluster import refuse_credentials, service_names
from isvc.commands.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from isvc.commands.names import ServiceName, is_url
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, write_data, write_line, write_table
from isvc.commands.target import TargetFlags, content_of, target_flags
from isvc.commands.values import PositiveNumber, WholeNumber, refuse, without_at
from isvc.limits import BENCH_BODY_BYTES, BENCH_CONNECTIONS, BENCH_RATE, BENCH_REQUESTS, BENCH_SECONDS
from isvc.run.errors import UnusableInput

if TYPE_CHECKING:
    from isvc.bench.load import LoadRequest

_BAR = 40  # characters


@click.command(short_help="measure how fast a server or a service responds")
@click.argument("destination", type=ServiceName(or_url=True), metavar="URL|NAME", shell_complete=service_names)
@click.option(
    "-c", "--connections", type=WholeNumber(1, BENCH_CONNECTIONS), metavar="N", help="default: 8; with --rate up to 256"
)
@click.option(
    "-t", "--time", "seconds", type=PositiveNumber(BENCH_SECONDS), default=10, metavar="SECONDS", help="default: 10"
)
@click.option(
    "-r", "--rate", type=PositiveNumber(BENCH_RATE), metavar="N", help="requests a second (default: a closed loop)"
)
@click.option(
    "--requests", type=WholeNumber(1, BENCH_REQUESTS), default=BENCH_REQUESTS, metavar="N", help="requests at most"
)
@click.option(
    "--timeout", type=PositiveNumber(BENCH_SECONDS), default=30, metavar="SECONDS", help="for a response (default: 30)"
)
@click.option(
    "-d", "--data", metavar="TEXT|@FILE|-", help="body, sent by POST; @FILE reads a file, - the standard input"
)
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME:VALUE", help="may be repeated; Host as well")
@target_flags
@output_flag
def command(
    *,
    destination: str,
    connections: int | None,
    rate: float | None,
    data: str | None,
    headers: tuple[str, ...],
    target: TargetFlags,
    output: OutputFormat,
    **amount: Any,
) -> int:
    """Send the same request to URL, or to the InferenceService NAME, and print how long the responses took.

    Of a service, the address, the protocol and the model are found, and without --data a sample is sent: that of isvc
    run, or one that is made from what the model says of its inputs.

    Without --rate, each connection sends its next request when it has its response. With --rate, requests are sent when
    they are due, and the time of a request counts from then, so a server that stalls is not spared (no coordinated
    omission). Ctrl-C ends the run, and prints what was measured. The exit code is 1 if a request failed.
    """
    import asyncio

    from isvc.bench.load import LoadPlan, load, load_request
    from isvc.bench.summary import document
    from isvc.predict.send import tls_of

    if why := without_at(data):
        raise UnusableInput(why)
    plan = LoadPlan(connections=connections or (256 if rate else 8), rate=rate or 0, **amount)
    content = None if data is None else content_of(data, BENCH_BODY_BYTES)
    if is_url(destination):
        why, of_cluster = "is of a service: leave it out, or give a NAME.", target.cluster
        refuse(why, model=target.model, address=target.address, url=target.url)
        refuse(why, namespace=of_cluster.namespace, local=of_cluster.local)
        refuse_credentials(why)
        request = load_request(destination, {}, headers, content)
    else:
        target.check()
        request = asyncio.run(_of_service(destination, target, headers, content, plan.timeout))
    found = document(request.url, plan, asyncio.run(load(request, plan, tls_of(target.cacert))))
    if output is OutputFormat.TEXT:
        _write(request.method, found)
    else:
        write_data(found, output)
    if found["interrupted"]:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if found["failed"] or not found["responses"] else 0


async def _of_service(
    name: str, target: TargetFlags, headers: Sequence[str], content: bytes | None, timeout: float
) -> LoadRequest:
    """Find where a service answers, and what its model takes, as `isvc predict` does."""
    from isvc.bench.load import load_request
    from isvc.predict.payload import of_json

    make = None if content is None else lambda declared: of_json(content, None, declared)
    async with target.prepare(name, make, timeout=timeout) as (service, model, payload):
        found = {"Content-Type": payload.content_type, **service.target.headers()}
        return load_request(f"{service.target.url}{payload.protocol.path(model)}", found, headers, payload.body)


def _write(method: str, found: Mapping[str, Any]) -> None:
    how = f"{found['rate']:g} requests a second" if found["rate"] else f"{found['connections']} connections"
    write_line(Styled(f"{method} {found['url']}", Style.STRONG), f"({how})")
    seconds, rate = found["seconds"], found["responsesPerSecond"]
    write_line(f"{found['responses']:,} responses in {seconds:.1f} s, {rate:,.1f} a second")
    refused = {f"status {status}": count for status, count in found["statuses"].items() if status[0] != "2"}
    for what, count in (refused | found["errors"]).items():
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
    rows = [
        [f"{row['upToMs']:g} ms", f"{row['count']:,}", "█" * round(_BAR * row["count"] / highest)]
        for row in found["histogram"]
    ]
    write_table(["UP TO", "RESPONSES", ""], rows)
