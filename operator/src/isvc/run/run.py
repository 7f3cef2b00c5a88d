"""``isvc run``: runs the rendered children of services on this machine.

1. check     which of them can run here                            pure, except for the ports of Services
2. listen    the ingress; it returns 503 until a pod is ready
3. apply     the services: their pods start, and are restarted where they fail
4. use       one request, or print the URLs and wait for a signal
5. stop      the ingress first (requests in progress are finished), then the pods, then the folders
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from isvc.dashboard.markup import THIS_MACHINE
from isvc.dashboard.server import dashboard
from isvc.inference.protocol import InferenceProtocol
from isvc.inference.sample import guessed_inputs, unknown_inputs
from isvc.predict.payload import PredictPayload
from isvc.run.caller import Served, guessed, predict, sample_request, served
from isvc.run.check import Checked
from isvc.run.children import Rendered
from isvc.run.cluster import LocalCluster, local_cluster
from isvc.run.container import LOOPBACK
from isvc.run.door import door
from isvc.run.errors import Interrupted, RunFailed, UnusableInput
from isvc.run.files import read_bytes
from isvc.run.ingress import DRAIN, ingress
from isvc.run.output import Output
from isvc.run.pod import claims_of
from isvc.run.processes import process_group
from isvc.run.service import LocalService, Settings
from isvc_operator.api.names import PREDICTOR, TRANSFORMER
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

if TYPE_CHECKING:
    from isvc.run.watch import WatchedFiles

T = TypeVar("T")
Sample = tuple[InferenceProtocol, Path | bytes | None]  # for a model; None if no request is known that fits it

_REQUEST = '{"instances": [...]}'
_OF_DATA = (
    '; an instance is what the handler gets as a row: [0.5, 1.0], or {"data": ...} if it takes "data" from its rows'
)
_OF_NUMBERS = "; each instance is a list of numbers, such as [0.5, 1.0]"
_STOPPING: Final = {1: "stopping", 2: "the servers are ended at once, with their requests"}  # by the count of signals
_NOTHING: Final = Served((), v1=False, metadata={})
_STALE: Final = "Files that you change are served by the next isvc run; with --watch, at once."
_SOON: Final = 2.0  # seconds; a run that stops within them does not say what it waits for
_INLINE_BYTES = 500  # of a body in a printed command; a longer one is a file

_NOT_ENFORCED = (
    "resource limits, users, read-only mounts, NetworkPolicies and TLS between servers are not enforced on this machine"
)


async def serve(
    checked: Checked,
    settings: Settings,
    *,
    samples: Mapping[ServiceKey, Path],
    output: Output,
    inputs: WatchedFiles | None = None,
    dashboard_port: int = 0,
) -> None:
    """Serve until cancelled; raises RunFailed then if a service is not ready or was refused.

    The printed commands send ``samples`` to models that they fit.

    With ``inputs``, pods are replaced when these files have changed; ``inputs.read`` then updates ``samples``. The
    dashboard has a free port if its port is 0.
    """
    async with (
        _running(checked, settings, output) as cluster,
        dashboard(
            cluster,
            port=dashboard_port,
            token=secrets.token_urlsafe(24),
            where=THIS_MACHINE,
            known=partial(_known, cluster, samples),
        ) as address,
        door(
            cluster,
            url=f"http://{LOOPBACK}:{settings.http_port}",
            dashboard=address,
            known=partial(_known, cluster, samples),
        ),
    ):
        cluster.dashboard = address.partition("?")[0]  # other users of this machine can read the page that links to it
        output.show(f"The dashboard is at {address}")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_announce(cluster, samples, output, address=address, is_watching=inputs is not None))
                if inputs:
                    from isvc.run.watch import watch  # here, because watchfiles is in another extra than `render`'s

                    tasks.create_task(watch(cluster, inputs, output))
        except asyncio.CancelledError:
            cluster.update_statuses()
            failed = [key.name for key, service in cluster.services.items() if service.has_failed]
            unready = f"stopped while a service was not ready: {one_line(', '.join(failed))}" if failed else ""
            if problems := "; ".join(filter(None, (unready, cluster.refused.summary))):
                raise RunFailed(problems) from None
            raise


async def _announce(
    cluster: LocalCluster, samples: Mapping[ServiceKey, Path], output: Output, *, address: str, is_watching: bool
) -> None:
    """Print where each service is reached when it is ready; when all are ready or have failed, where to look, and how
    to stop.
    """
    announced: dict[ServiceKey, LocalService] = {}  # one that is removed from the files and comes again is another
    changes, prompted = cluster.changes(), False
    while True:
        for key, service in list(cluster.services.items()):
            if service.is_ready and announced.get(key) is not service:
                announced[key] = service
                with suppress(UnusableInput):  # it was removed from the files meanwhile
                    await _show(cluster, key, samples.get(key), output)
        is_shown = all(announced.get(key) is one for key, one in cluster.services.items() if one.is_ready)
        if not prompted and is_shown and all(service.is_settled for service in cluster.services.values()):
            prompted = True
            is_stale = not is_watching and any(service.has_failed for service in cluster.services.values())
            lines = (
                cluster.refused.summary,
                f"The dashboard is at {address}",
                _STALE if is_stale else "",
                "Ctrl-C stops it.",
            )
            output.show("\n".join(("", *filter(None, lines), "")))
        await anext(changes)


async def _show(cluster: LocalCluster, key: ServiceKey, sample: Path | None, output: Output) -> None:
    endpoint = cluster.endpoint(key)
    addresses = [("URL", f"{endpoint.url}{endpoint.path}/"), ("Host", f"{endpoint.host} at {endpoint.url}")]
    if endpoint.grpc_port:
        addresses.append(("gRPC", f"{LOOPBACK}:{endpoint.grpc_port}"))
    output.show_service(endpoint.service, addresses, [line async for line in _commands(cluster, key, sample)])


async def _commands(cluster: LocalCluster, key: ServiceKey, sample: Path | None) -> AsyncIterator[str]:
    """Yield a command for each model of a service, and what has to be known of it."""
    endpoint, is_transformed = cluster.endpoint(key), _is_transformed(cluster, key)
    handlers = {} if is_transformed else await asyncio.to_thread(cluster.handlers, key)
    models = await _served(cluster, key)
    for name, (protocol, body) in (await _samples(cluster, key, sample, models)).items():
        if isinstance(body, bytes) and len(body) > _INLINE_BYTES:
            body = await asyncio.to_thread(cluster.keep, body)
        yield endpoint.curl(protocol.path(name), body or Path("FILE"))
        if body and body == guessed(handlers.get(name)):
            yield f"({one_line(name)} may take another picture or text: this is a guess, from what its handler is)"
        if body is None:
            metadata = None if is_transformed else models.metadata.get(name)
            request = _request(guessed_inputs(metadata), handlers.get(name))
            yield f"({one_line(name)} {unknown_inputs(metadata)}; write a request into FILE: {request})"
    if is_transformed and (lacking := await _lacking(cluster, key, models)):
        yield f"({lacking})"


async def _lacking(cluster: LocalCluster, key: ServiceKey, asked: Served) -> str:
    """Return that the predictor lacks the models for which a transformer asks; empty if it has one of them."""
    predictor = cluster.rendered(key).resolved.hosts.components.get(PREDICTOR)
    has = await _served(cluster, key, predictor[0]) if predictor else _NOTHING
    if not (asked.v1 and has.v1) or {*asked.names} & {*has.names}:
        return ""
    asks, models = one_line(", ".join(asked.names)), one_line(", ".join(has.names)) or "none"
    return f"the transformer asks for {asks}, and its predictor has {models}; set the transformer's --model_name"


def _request(inputs: Sequence[str], handler: str | None) -> str:
    """Return what a request of v1 looks like: an instance has each of several inputs by its name."""
    if len(inputs) > 1:
        return one_line(f'{{"instances": [{{{", ".join(f"{json.dumps(name)}: ..." for name in inputs)}}}]}}')
    return _REQUEST + (_OF_NUMBERS if handler == "base_handler" else _OF_DATA if handler else "")


async def _served(cluster: LocalCluster, key: ServiceKey, host: str = "") -> Served:
    """Return what the models of a service, or of its component with that host, say."""
    endpoint = cluster.endpoint(key)
    try:
        return await served(replace(endpoint, host=host or endpoint.host))
    except RunFailed:  # it has failed since it was ready, or says nothing of models
        return _NOTHING


async def _known(
    cluster: LocalCluster, samples: Mapping[ServiceKey, Path], key: ServiceKey
) -> Mapping[str, tuple[InferenceProtocol, bytes]]:
    """Return the requests that are known to fit the models of a service, as they are sent."""
    found = await _samples(cluster, key, samples.get(key)) if key in cluster.services else {}
    return {
        model: (protocol, read_bytes(body) if isinstance(body, Path) else body)
        for model, (protocol, body) in found.items()
        if body is not None
    }


async def _samples(
    cluster: LocalCluster, key: ServiceKey, beside: Path | None, models: Served | None = None
) -> Mapping[str, Sample]:
    """Return a request for each model of a service that serves; ``models`` is what they say, if that is known."""
    models = models or await _served(cluster, key)
    is_transformed = _is_transformed(cluster, key)
    handlers = {} if is_transformed else await asyncio.to_thread(cluster.handlers, key)
    return {
        name: sample_request(name, models, beside, handlers.get(name), transformed=is_transformed)
        for name in models.names
    }


def _is_transformed(cluster: LocalCluster, key: ServiceKey) -> bool:
    return TRANSFORMER in {item.kind for item in cluster.rendered(key).resolved.components}


async def request_once(checked: Checked, settings: Settings, *, payload: PredictPayload, output: Output) -> str:
    """Serve one service for one request, and return the response; raises RunFailed if it or a container fails."""
    async with _running(checked, settings, output) as cluster:
        cluster.says_failures = False  # the first one ends the run, which says it
        ((key, service),) = cluster.services.items()
        await cluster.until(lambda: service.is_settled or cluster.failure is not None)
        if cluster.failure:
            raise RunFailed(cluster.failure.brief)
        if not service.is_ready:
            raise RunFailed(f"{key.name} is not ready: {service.ready.get('message') or 'it has no status'}")
        return await predict(cluster.endpoint(key), payload)


async def until_signal(work: Coroutine[Any, Any, T], output: Output) -> T | None:
    """Return the result of ``work``, or None if SIGTERM has stopped it; raises Interrupted if SIGINT has.

    A second signal stops it faster. It is stopped as well when nobody reads any more what it prints.
    """
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def lost() -> None:  # in the thread that prints
        with suppress(RuntimeError):  # the run has just ended
            loop.call_soon_threadsafe(task.cancel)

    output.when_lost(lost)

    signals: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        signals.append(number)
        if said := _STOPPING.get(len(signals)):
            output.note(said)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if signal.SIGINT in signals:
            raise Interrupted from None
        return None


@asynccontextmanager
async def _running(checked: Checked, settings: Settings, output: Output) -> AsyncIterator[LocalCluster]:
    async with (
        process_group(settings.environment, output) as group,
        local_cluster(group, settings) as cluster,
    ):
        services = await cluster.check(checked.usable, checked.refused)
        for line in cluster.refused.lines:
            output.say(f"refused: {line}")
        for claim in sorted(settings.claims.keys() - _claims_of(services)):
            output.say(f"--pvc {one_line(claim)}: no service uses this claim")
        try:
            async with ingress(
                cluster.routes,
                settings.http_port,
                cluster.predicted,
                cluster.front,
                dashboard=lambda: cluster.dashboard,
            ):
                output.detail(_NOT_ENFORCED)
                cluster.apply(services)
                try:
                    yield cluster
                finally:
                    if _signals():
                        asyncio.get_running_loop().call_later(_SOON, lambda: output.note(_awaited(cluster)))
        finally:
            group.is_hurried = _signals() > 1


def _signals() -> int:
    """Return how often this run was told to stop."""
    return cast(asyncio.Task[Any], asyncio.current_task()).cancelling()


def _awaited(cluster: LocalCluster) -> str:
    """Return what a run that stops waits for, and for how long."""
    plans = (plan for service in cluster.services.values() for plan in service.plans().values())
    grace = max((plan.grace for plan in plans), default=0)
    is_busy = any(service.is_busy for service in cluster.services.values())
    requests = f"requests in progress have {DRAIN:g} s to finish, and then " if is_busy else ""
    return f"{requests}the servers {'' if is_busy else 'have '}{grace:g} s to end; Ctrl-C again ends them at once"


def _claims_of(services: Sequence[Rendered]) -> set[str]:
    deployments = (child for rendered in services for child in rendered.children if child["kind"] == "Deployment")
    return {claim for deployment in deployments for claim in claims_of(deployment)}
