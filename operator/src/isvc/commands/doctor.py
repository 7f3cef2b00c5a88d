"""``isvc doctor``: whether a cluster has what services need, and what to do where it has not."""

from __future__ import annotations

import click

from isvc.commands.cluster import ClusterFlags, cluster_flags
from isvc.commands.exit_codes import EXIT_FAILED, EXIT_NO_EFFECT
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, write_data, write_line

_STYLES = {"ok": Style.OK, "unknown": Style.WARNING, "warning": Style.WARNING, "problem": Style.ERROR}
_WIDTH = 7  # characters of the longest verdict


@click.command(short_help="check whether a cluster has what services need")
@cluster_flags
@output_flag
def command(*, cluster: ClusterFlags, output: OutputFormat) -> int:
    """Check whether a cluster has what services need.

    Looks at the version, the CRDs, the operator, your rights, the configuration, the ingress, the runtimes, and at
    what each service of the namespace refers to. Each line is ok, or says what to do. Reads only.

    Exit code 1: there is a problem; 3: there are warnings only.
    """
    import asyncio

    return asyncio.run(_examine(cluster, output))


async def _examine(cluster: ClusterFlags, output: OutputFormat) -> int:
    import time

    from isvc.doctor.checks import Verdict, worst
    from isvc.doctor.examine import Examination, as_data
    from isvc_operator.kube.objects import ObjectReader

    checks = []
    async with cluster.connect(asks_first=False) as (api, namespace):
        reader = ObjectReader(api, time.monotonic)
        async for check in Examination(api, api.server, namespace, reader).checks():
            checks.append(check)
            if output is OutputFormat.TEXT:
                verdict = Styled(check.verdict.ljust(_WIDTH), _STYLES[check.verdict])
                write_line(verdict, Styled(f"{check.subject}:", Style.STRONG), check.message)
    found = worst(checks)
    if output is not OutputFormat.TEXT:
        write_data(as_data(checks, found), output)
    return {Verdict.PROBLEM: EXIT_FAILED, Verdict.OK: 0}.get(found, EXIT_NO_EFFECT)
