"""Reads services of a cluster for a command; what the caller may not see is said on stderr."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from isvc.commands.cluster import ClusterFlags
from isvc.commands.output import stderr_note
from isvc.commands.seen.errors import NoSuchService
from isvc.inference.protocol import InferenceProtocol
from isvc.predict.payload import PredictPayload
from isvc.predict.target import Target, declared_protocol, of_url, trouble_of
from isvc.source.runs import DEFAULT_NAMESPACE, RunSource, run_source
from isvc.source.source import cluster_source
from isvc.view.service import view_of
from isvc.view.source import ServiceSource
from isvc.view.values import ServiceView
from isvc_operator.limits import NAMED
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line


@asynccontextmanager
async def services_of(
    cluster: ClusterFlags, *, everywhere: bool = False, for_pages: bool = False
) -> AsyncIterator[tuple[ServiceSource, str]]:
    """Yield the services of the flags' namespace, or of all, and the namespace."""
    if runs := await cluster.runs():
        namespace = cluster.namespace or DEFAULT_NAMESPACE
        async with run_source(runs, None if everywhere else namespace) as source:
            yield source, namespace
        return
    async with (
        cluster.connect() as (api, namespace),
        cluster_source(api, () if everywhere else (namespace,), for_pages=for_pages) as watched,
    ):
        for hidden in watched.hidden():
            stderr_note(hidden)
        if not _has_operator(watched):
            stderr_note("no operator has looked at these services; isvc doctor tells whether one runs")
        yield watched, namespace


async def local_target(cluster: ClusterFlags, name: str, *, samples: bool) -> Target | None:
    """Return where a service of ``isvc run`` answers, if that is asked instead of a cluster; raises NoSuchService.

    ``samples``: with the requests that the run knows.
    """
    if not (runs := await cluster.runs()):
        return None
    key = ServiceKey(cluster.namespace or DEFAULT_NAMESPACE, name)
    async with run_source(runs, key.namespace) as source:
        seen(source, key)  # which says that there is none
        run, related = source.run_of(key), source.related(key)
        if run is None or related is None:
            return None
        found = of_url(run.url_of(key), name, key.namespace, None)
        told = await run.samples(key) if samples else {}
        return replace(
            found,
            protocol=declared_protocol(related.service),
            samples={
                model: PredictPayload(InferenceProtocol(protocol), body.encode())
                for model, (protocol, body) in told.items()
            },
            trouble=trouble_of(related),
        )


def _has_operator(source: ServiceSource) -> bool:
    """Whether a service has a status, or there is none that could have one."""
    found = [related.service for related in map(source.related, source.keys()) if related]
    return not found or any(service.get("status", {}).get("conditions") for service in found)


def seen(source: ServiceSource, key: ServiceKey) -> ServiceView:
    """Return what is seen of a service; raises NoSuchService, and NotSeen if several runs have one of this name."""
    if isinstance(source, RunSource):
        source.require_one(key)
    found = seen_now(source, key)
    if found is None:
        known = source.keys()
        raise NoSuchService(_missing(key, [item.name for item in known if item.namespace == key.namespace]))
    return found


def seen_now(source: ServiceSource, key: ServiceKey) -> ServiceView | None:
    """Return what is seen of a service, with the URL by which it is reached from here; None if it does not exist."""
    related = source.related(key)
    return replace(view_of(related), url=source.address(key)) if related else None


def seen_in(source: ServiceSource, key: ServiceKey) -> Mapping[str, ServiceView]:
    """Return what is seen of a service by the URL of the run that has it, of which there may be several; "" else."""
    if isinstance(source, RunSource):
        return {run.url: replace(view_of(told), url=run.url_of(key)) for run, told in source.runs_of(key)}
    found = seen_now(source, key)
    return {"": found} if found else {}


def seen_all(source: ServiceSource, key: ServiceKey | None = None) -> list[ServiceView]:
    """Return what is seen of all services, or of one; without those that have been deleted meanwhile.

    Of the services of several runs with the same name, all are among them.
    """
    return [service for item in ([key] if key else source.keys()) for service in seen_in(source, item).values()]


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def _missing(key: ServiceKey, names: list[str]) -> str:
    others = f"there are: {', '.join(names[:NAMED])}" if names else "it has none (--namespace names another one)"
    return f"there is no InferenceService {one_line(key.name)!r} in namespace {key.namespace}; {others}"
