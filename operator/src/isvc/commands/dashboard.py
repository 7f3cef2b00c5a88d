"""``isvc dashboard``: pages about the services of a cluster, with the rights of whoever looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import ClusterFlags, service_flags_of_several
from isvc.commands.values import Origin, WholeNumber, refuse

if TYPE_CHECKING:
    from isvc.source.runs import LocalRun


@click.command(short_help="show services of a cluster on pages in the browser")
@click.option("-A", "--all-namespaces", is_flag=True, help="the services of all namespaces")
@click.option(
    "--port",
    type=WholeNumber(1, 65535),
    envvar="DASHBOARD_PORT",
    metavar="PORT",
    help="port on 127.0.0.1, a number from 1 to 65535 (default: a free one) [DASHBOARD_PORT]",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    type=Origin(),
    envvar="DASHBOARD_ORIGINS",
    metavar="URL",
    help="serve several people, who open the page at this URL and sign in with tokens of the cluster; it listens on "
    "all addresses of this host. May be repeated [DASHBOARD_ORIGINS, with commas]",
)
@service_flags_of_several
def command(*, all_namespaces: bool, port: int | None, origins: tuple[str, ...], cluster: ClusterFlags) -> None:
    """Serve pages about the services of a namespace on this machine, until it is stopped.

    They show what the credentials may see, and keep themselves up to date. The address has a token: other users of
    this machine do not get in without it. With --origin, each person sees what that person may list, and --namespace
    may have several names with commas between them.

    isvc run has a dashboard of its own: instead of a second one, its address is printed, with the services that it
    shows.
    """
    import asyncio

    if origins:
        refuse("is of this user alone: leave it out, or --origin.", local=cluster.local)
    place = "all namespaces" if all_namespaces else ""
    if not origins and (runs := asyncio.run(cluster.runs())):
        asyncio.run(_show_runs(runs))
    elif origins:
        asyncio.run(_serve_people(cluster, origins, everywhere=all_namespaces, port=port or 0, where=place))
    else:
        asyncio.run(_serve(cluster, everywhere=all_namespaces, port=port or 0, where=place))


async def _show_runs(runs: Sequence[LocalRun]) -> None:
    from isvc.source.runs import run_source
    from isvc_operator.text import one_line

    async with run_source(runs, None) as source:
        for run in runs:
            click.echo(f"{run.dashboard}  {one_line(', '.join(source.names(run)))}".rstrip())


async def _serve(cluster: ClusterFlags, *, everywhere: bool, port: int, where: str) -> None:
    import secrets

    from isvc.commands.seen.reading import services_of
    from isvc.dashboard.server import dashboard

    async with services_of(cluster, everywhere=everywhere, for_pages=True) as (source, namespace):
        token, where = secrets.token_urlsafe(24), where or f"namespace {namespace}"
        async with dashboard(source, port=port, token=token, where=where) as address:
            click.echo(f"{address}\nCtrl-C stops it.")
            await _stopped()


async def _serve_people(
    cluster: ClusterFlags, origins: Sequence[str], *, everywhere: bool, port: int, where: str
) -> None:
    import asyncio

    from isvc.dashboard.server import shared_dashboard
    from isvc.source.metrics import from_pods
    from isvc.source.people import ClusterPeople
    from isvc.source.source import cluster_source

    clock = asyncio.get_running_loop().time
    async with (
        cluster.connect() as (api, namespace),
        cluster.connect_others() as api_of,
        from_pods() as metrics,
        cluster_source(api, () if everywhere else namespace.split(","), metrics, for_pages=True) as source,
        shared_dashboard(
            source, ClusterPeople(source, api_of, clock), port=port, origins=origins,
            where=where or f"namespace {namespace}",
        ),
    ):  # fmt: skip
        click.echo("\n".join(origins))
        await _stopped()


async def _stopped() -> None:
    """Wait until the process is told to stop, as a pod is; Ctrl-C ends it as it ends every command."""
    import asyncio
    import signal

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
