"""``isvc logs``: the logs of all containers of a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import ClusterFlags, service_flags, service_names
from isvc.commands.names import ServiceName
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, write_line, write_record
from isvc.commands.values import Seconds, WholeNumber
from isvc.limits import LOG_LINES

if TYPE_CHECKING:
    from isvc.commands.seen.follow import LogLine, Wanted


@click.command(short_help="print the logs of a service's containers")
@click.argument("name", type=ServiceName(), shell_complete=service_names)
@click.option("-f", "--follow", is_flag=True, help="go on, also with pods that start later")
@click.option("-c", "--container", metavar="NAME", help="only containers of this name, such as storage-initializer")
@click.option(
    "--component", type=click.Choice(["predictor", "transformer", "explainer"]), help="only pods of this component"
)
@click.option("-p", "--previous", is_flag=True, help="the logs of the instances before the last restart")
@click.option("--since", type=Seconds(), metavar="TIME", help="only lines that are not older: 90s, 5m, 2h")
@click.option(
    "--tail",
    type=WholeNumber(1, LOG_LINES),
    default=100,
    metavar="NUMBER",
    help="lines of each container, from its end (default: 100)",
)
@click.option("--timestamps", is_flag=True, help="print the time of each line")
@service_flags
@output_flag
def command(
    *,
    name: str,
    follow: bool,
    container: str | None,
    component: str | None,
    previous: bool,
    since: int | None,
    tail: int,
    timestamps: bool,
    output: OutputFormat,
    cluster: ClusterFlags,
) -> None:
    """Print the logs of all containers of a service in the order of their times, each line with its pod and container.

    The storage-initializer's is among them. For programs, each line is an object with at, pod, container and text.
    """
    import asyncio

    from isvc.commands.seen.follow import Wanted

    if follow and previous:
        raise click.UsageError("a previous instance has ended: leave out --follow, or --previous.")
    if since == 0:
        raise click.BadParameter("no line is that new; give a time of a second or more.", param_hint="'--since'")
    wanted = Wanted(component=component, container=container, previous=previous, lines=tail, since_seconds=since)

    def write(line: LogLine) -> None:
        if output is OutputFormat.TEXT:
            _write(line, timestamps=timestamps)
        else:
            record = {"at": line.at, "pod": line.pod, "container": line.container, "text": line.text}
            write_record(record, output)

    asyncio.run(_logs(cluster, name, wanted, write, goes_on=follow))


async def _logs(
    cluster: ClusterFlags, name: str, wanted: Wanted, write: Callable[[LogLine], None], *, goes_on: bool
) -> None:
    from isvc.commands.seen.follow import follow, past_lines
    from isvc.commands.seen.reading import seen, services_of
    from isvc_operator.manifests import ServiceKey

    async with services_of(cluster) as (source, namespace):
        key = ServiceKey(namespace, name)
        seen(source, key)  # which says that there is none
        if not goes_on:
            for line in await past_lines(source, key, wanted):
                write(line)
            return
        await follow(source, key, wanted, write)


def _write(line: LogLine, *, timestamps: bool) -> None:
    at = [Styled(line.at, Style.FAINT)] if timestamps and line.at else []
    write_line(*at, Styled(f"{line.pod} {line.container} |", Style.FAINT), line.text)
