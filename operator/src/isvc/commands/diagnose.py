"""``isvc diagnose``: why a service does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import ClusterFlags, service_flags, service_names
from isvc.commands.exit_codes import EXIT_FAILED
from isvc.commands.names import ServiceName
from isvc.commands.output import OutputFormat, output_flag, write_data, write_line
from isvc_operator.errors import OperatorError

if TYPE_CHECKING:
    from isvc.view.diagnosis import Answered, Diagnosis
    from isvc.view.source import ServiceSource
    from isvc.view.values import ServiceView
    from isvc_operator.manifests import ServiceKey

# In the servers' lines about requests, which have their status.
_FAILED = " answered 5"
_WITHOUT_MODEL = " answered 404"


@click.command(short_help="say why a service does not serve, and what to do")
@click.argument("name", type=ServiceName(), shell_complete=service_names)
@service_flags
@output_flag
def command(*, name: str, cluster: ClusterFlags, output: OutputFormat) -> int:
    """Say why a service does not serve: one cause first, with its evidence and what to do about it.

    What else is worth knowing comes after it. The exit code is 0 if the service serves and no pod has failed, else 1;
    requests that have failed do not count.
    """
    import asyncio

    from isvc.view.diagnosis import diagnose
    from isvc.view.json_shape import as_json

    service, answered, last_failed = asyncio.run(_seen(cluster, name))
    diagnosis = diagnose(service, answered, last_failed)
    if output is OutputFormat.TEXT:
        _write(service, diagnosis)
    else:
        write_data(as_json(diagnosis), output)
    return 0 if diagnosis.healthy else EXIT_FAILED


async def _seen(cluster: ClusterFlags, name: str) -> tuple[ServiceView, Answered, str]:
    from isvc.commands.seen.reading import seen, services_of
    from isvc.dashboard.scraping import answered_requests
    from isvc_operator.manifests import ServiceKey

    async with services_of(cluster) as (source, namespace):
        key = ServiceKey(namespace, name)
        service = seen(source, key)
        answered = await answered_requests(source, service)
        return service, answered, await _last_failed(source, key, answered) if answered.failed else ""


async def _last_failed(source: ServiceSource, key: ServiceKey, answered: Answered) -> str:
    """Return the last line about a request that has failed in the logs of a service; empty if none is seen."""
    from isvc.commands.seen.follow import Wanted, past_lines
    from isvc_operator.api.names import PREDICTOR

    component, failed = (PREDICTOR, _WITHOUT_MODEL) if answered.without_model else (None, _FAILED)
    try:
        lines = await past_lines(source, key, Wanted(component=component))
    except OperatorError:
        return ""
    return next((line.text for line in reversed(lines) if failed in line.text), "")


def _write(service: ServiceView, diagnosis: Diagnosis) -> None:
    from isvc.commands.seen.lines import finding_lines, head, rollout_line
    from isvc.commands.seen.reading import now

    write_line(*head(service, f"in namespace {service.namespace}:", now()))
    if not diagnosis.findings:
        write_line("Nothing is wrong.")
    for finding in diagnosis.findings:
        write_line("")
        for line in finding_lines(finding):
            write_line(*line)
    if diagnosis.rollout:
        write_line("")
        write_line(*rollout_line(diagnosis.rollout))
