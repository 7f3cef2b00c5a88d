"""``isvc status``: the services of a cluster, or one with its components, pods and containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import ClusterFlags, service_flags, service_names
from isvc.commands.names import ServiceName
from isvc.commands.output import OutputFormat, output_flag

if TYPE_CHECKING:
    from isvc.view.source import ServiceSource
    from isvc_operator.manifests import ServiceKey


@click.command(short_help="show services, or one with its pods and containers")
@click.argument("name", required=False, type=ServiceName(), shell_complete=service_names)
@click.option("-w", "--watch", is_flag=True, help="go on, and show each change; elsewhere than on a terminal as a line")
@click.option("-A", "--all-namespaces", is_flag=True, help="the services of all namespaces")
@click.option("--history", is_flag=True, help="with NAME: also what has happened, from its creation to now")
@service_flags
@output_flag
def command(
    *, name: str | None, watch: bool, all_namespaces: bool, history: bool, cluster: ClusterFlags, output: OutputFormat
) -> None:
    """Show the services of a namespace with their health, the stage of their start, and why they fail.

    With NAME, show that service: its components, their pods and containers, the progress of a download, the cause of
    a failure and what to do about it.
    """
    import asyncio

    if name and all_namespaces:
        raise click.UsageError("NAME is in one namespace: leave out --all-namespaces, or NAME.")
    if history and not name:
        raise click.UsageError("--history is that of one service: add its NAME.")
    asked = _Asked(name=name, everywhere=all_namespaces, history=history, output=output)
    asyncio.run(_status(cluster, asked, watch=watch))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    name: str | None
    everywhere: bool
    history: bool
    output: OutputFormat


async def _status(cluster: ClusterFlags, asked: _Asked, *, watch: bool) -> None:
    from isvc.commands.seen.reading import seen, services_of
    from isvc_operator.manifests import ServiceKey

    async with services_of(cluster, everywhere=asked.everywhere) as (source, namespace):
        key = ServiceKey(namespace, asked.name) if asked.name else None
        if key:
            seen(source, key)  # which says that there is none
        if watch:
            await _watch(source, key, asked)
        else:
            _show(source, key, asked)


def _show(source: ServiceSource, key: ServiceKey | None, asked: _Asked) -> None:
    from isvc.commands.output import write_data, write_line, write_table
    from isvc.commands.seen.lines import one_service, table
    from isvc.commands.seen.reading import now, seen_all
    from isvc.view.json_shape import as_json

    services = seen_all(source, key)
    if asked.output is not OutputFormat.TEXT:
        write_data(as_json(services[0]) if key else {"services": as_json(services)}, asked.output)
    elif key:
        for line in one_service(services[0], now(), with_history=asked.history):
            write_line(*line)
    elif services:
        write_table(*table(services, now(), with_namespace=asked.everywhere))
    else:
        click.echo(f"There are no InferenceServices{'' if asked.everywhere else ' here'}.", err=True)


async def _watch(source: ServiceSource, key: ServiceKey | None, asked: _Asked) -> None:
    from isvc.commands.output import Cell, aligned, live_lines
    from isvc.commands.seen.changes import ChangePrinter
    from isvc.commands.seen.lines import one_service, table
    from isvc.commands.seen.reading import now, seen_all

    def screen() -> list[list[Cell]]:
        services = seen_all(source, key)
        if key is None:
            return aligned(*table(services, now(), with_namespace=asked.everywhere))
        lines = (line for item in services for line in one_service(item, now(), with_history=asked.history))
        return [[*line] for line in lines] or [[f"{key.name} was deleted"]]

    with live_lines() as show:
        in_place = show if asked.output is OutputFormat.TEXT else None
        changes = ChangePrinter(source, asked.output)
        if in_place:
            in_place(screen())
        else:
            changes.write([key] if key else source.keys())
        async for keys in source.changes():
            concerned = [item for item in sorted(keys) if key in (None, item)]
            if in_place and concerned:
                in_place(screen())
            elif concerned:
                changes.write(concerned)
