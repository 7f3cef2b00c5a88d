"""A cluster of ``isvc run`` inside of a test, and what it shows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from isvc.run.children import Rendered, render_services
from isvc.run.cluster import LocalCluster, local_cluster
from isvc.run.ingress import ingress
from isvc.run.processes import process_group
from isvc.run.service import Settings
from isvc_operator.config import OperatorConfig
from isvc_operator.manifests import ServiceKey
from tests.support.local_services import Silent, parsed
from tests.support.ports import free_port


def rendered(*documents: Mapping[str, Any]) -> list[Rendered]:
    """The services among the documents."""
    services, invalid = render_services(parsed(*documents), (), OperatorConfig(), tls=False)
    assert invalid == []
    return services


@asynccontextmanager
async def running(folder: Path, *documents: Mapping[str, Any]) -> AsyncIterator[LocalCluster]:
    """Run the services; the claim ``models`` is that folder. At the end no process and no folder is left."""
    settings = Settings({"models": folder}, free_port(), dict(os.environ), {})
    async with process_group(dict(os.environ), Silent()) as group:
        async with local_cluster(group, settings) as cluster:
            services = rendered(*documents)
            await cluster.check(services)
            async with ingress(cluster.routes, settings.http_port):
                cluster.apply(services)
                yield cluster
        assert group.running == []
        left = group.folder
    assert not left.exists()


def key(name: str) -> ServiceKey:
    return ServiceKey("default", name)


async def until_settled(cluster: LocalCluster) -> None:
    """Wait until each service is ready or has failed."""
    async with asyncio.timeout(30):
        await cluster.until(lambda: all(service.is_settled for service in cluster.services.values()))


def conditions(cluster: LocalCluster, name: str) -> dict[str, tuple[str, str]]:
    """Type → status and reason."""
    related = cluster.related(key(name))
    assert related
    return {item["type"]: (item["status"], item.get("reason", "")) for item in related.service["status"]["conditions"]}
