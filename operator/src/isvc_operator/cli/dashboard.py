"""``isvc dashboard``: pages about the services of a cluster, with the caller's own rights."""

from __future__ import annotations

import click

from isvc_operator.cli.cluster import ClusterFlags, cluster_flags
from isvc_operator.cli.values import WholeNumber


@click.command(short_help="show services of a cluster on pages in the browser")
@click.option("-A", "--all-namespaces", is_flag=True, help="the services of all namespaces")
@click.option(
    "--port",
    type=WholeNumber(1, 65535),
    metavar="PORT",
    help="port on 127.0.0.1, a number from 1 to 65535 (default: a free one)",
)
@cluster_flags
def command(*, all_namespaces: bool, port: int | None, cluster: ClusterFlags) -> None:
    """Serve pages about the services of a namespace on this machine, until Ctrl-C.

    They show what the credentials may see, and keep themselves up to date. The address has a token: other users of
    this machine do not get in without it.
    """
    import asyncio

    asyncio.run(_serve(cluster, everywhere=all_namespaces, port=port))


async def _serve(cluster: ClusterFlags, *, everywhere: bool, port: int | None) -> None:
    import asyncio
    import secrets

    from isvc_operator.cli.seen.reading import services_of
    from isvc_operator.dashboard.server import dashboard

    async with services_of(cluster, everywhere=everywhere) as (source, namespace):
        where = "all namespaces" if everywhere else f"namespace {namespace}"
        async with dashboard(source, port=port or 0, token=secrets.token_urlsafe(24), where=where) as address:
            click.echo(f"{address}\nCtrl-C stops it.")
            await asyncio.Event().wait()
