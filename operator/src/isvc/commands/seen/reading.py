"""Reads services of a cluster for a command; what the caller may not see is said on stderr."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from isvc.commands.cluster import ClusterFlags
from isvc.commands.output import stderr_note
from isvc.commands.seen.errors import NoSuchService
from isvc.source.source import ClusterSource, cluster_source
from isvc.view.service import view_of
from isvc.view.source import ServiceSource
from isvc.view.values import ServiceView
from isvc_operator.limits import NAMED
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line


@asynccontextmanager
async def services_of(
    cluster: ClusterFlags, *, everywhere: bool = False, for_pages: bool = False
) -> AsyncIterator[tuple[ClusterSource, str]]:
    """Yield the services of the flags' namespace, or of all, and the namespace."""
    async with (
        cluster.connect() as (api, namespace),
        cluster_source(api, () if everywhere else (namespace,), for_pages=for_pages) as source,
    ):
        for hidden in source.hidden():
            stderr_note(hidden)
        yield source, namespace


def seen(source: ServiceSource, key: ServiceKey) -> ServiceView:
    """Return what is seen of a service; raises NoSuchService."""
    related = source.related(key)
    if related is None:
        known = source.keys()
        raise NoSuchService(_missing(key, [item.name for item in known if item.namespace == key.namespace]))
    return view_of(related)


def seen_all(source: ServiceSource, key: ServiceKey | None = None) -> list[ServiceView]:
    """Return what is seen of all services, or of one; without those that have been deleted meanwhile."""
    found = (source.related(item) for item in ([key] if key else source.keys()))
    return [view_of(related) for related in found if related is not None]


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def _missing(key: ServiceKey, names: list[str]) -> str:
    others = f"there are: {', '.join(names[:NAMED])}" if names else "it has none (--namespace names another one)"
    return f"there is no InferenceService {one_line(key.name)!r} in namespace {key.namespace}; {others}"
