"""The flags of the commands that send requests to a service, and where it answers."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.cluster import ClusterFlags, refuse_credentials, service_flags
from isvc.commands.values import Text, refuse

if TYPE_CHECKING:
    from isvc.inference.protocol import InferenceProtocol
    from isvc.predict.payload import PredictPayload
    from isvc.predict.send import Caller
    from isvc.predict.target import Target

_STANDARD_INPUT = "-"


@dataclass(frozen=True)
class TargetFlags:
    """Which way a request takes to a service, as the flags have it."""

    cluster: ClusterFlags
    model: str | None
    address: str | None
    url: str | None
    cacert: str | None
    host: str | None = None
    port_forward: bool = False

    def check(self) -> None:
        """Raise UsageError for flags of which one would have no effect."""
        if self.url:
            why = "is a way into a cluster: leave it out, or --url."
            refuse(why, address=self.address, port_forward=self.port_forward)
            refuse_credentials(why)
        else:
            refuse("is of the service at --url: leave it out, or add --url.", host=self.host)
        if self.cluster.local:
            why = "is another way than --local: leave out one of them."
            refuse(why, address=self.address, port_forward=self.port_forward, url=self.url)
        if self.port_forward:
            refuse("is another way than --port-forward: leave out one of them.", address=self.address)

    @asynccontextmanager
    async def prepare(
        self, name: str, make: Callable[[InferenceProtocol | None], PredictPayload] | None, *, timeout: float
    ) -> AsyncIterator[tuple[Caller, str, PredictPayload]]:
        """Yield what sends requests to the service, its model, and what fits it.

        ``make`` makes that for the protocol that the service declares; without it, it is a sample.
        """
        from isvc.predict.send import caller

        async with (
            self._find(name, samples=make is None) as target,
            caller(target, timeout, self.cacert) as service,
        ):
            model = self.model or await service.model(name)
            yield service, model, make(target.protocol) if make else await service.sample(model)

    @asynccontextmanager
    async def _find(self, name: str, *, samples: bool) -> AsyncIterator[Target]:
        """Yield where the service answers; ``samples``: with the requests that fit its models, if a run knows them."""
        from isvc.commands.seen.reading import local_target
        from isvc.predict.cluster import find_service, find_target, forwarded_target
        from isvc.predict.target import declared_protocol, of_url

        if self.url:
            yield of_url(self.url, name, self.cluster.namespace or "default", self.host)
        elif local := await local_target(self.cluster, name, samples=samples):
            yield local
        else:
            async with self.cluster.connect() as (api, namespace):
                service = await find_service(api, namespace, name)
                protocol = declared_protocol(service)
                if self.port_forward:
                    async with forwarded_target(api, service) as target:
                        yield replace(target, protocol=protocol)
                else:
                    yield replace(await find_target(api, service, self.address), protocol=protocol)


def content_of(data: str, most: int) -> bytes:
    """Return what ``--data`` stands for: a file's content, that of the standard input, or the text itself."""
    from isvc.run.files import bounded, read_bytes

    if data == _STANDARD_INPUT:
        return bounded(sys.stdin.buffer, "the standard input", most)
    return read_bytes(Path(data[1:]), most) if data.startswith("@") else data.encode()


def target_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say where a service answers; the command gets them as ``target``."""

    @click.option("--model", type=Text(), metavar="NAME", help="model (default: the service's only one)")
    @click.option(
        "--address", type=Text(), metavar="HOST[:PORT]", help="address of the ingress (default: what it has published)"
    )
    @click.option("--url", type=Text(), metavar="URL", help="use no cluster, but this ingress (isvc run's) or service")
    @click.option("--cacert", metavar="FILE", help="certificates to trust (default: those of the system)")
    @service_flags
    @functools.wraps(command)
    def with_flags(
        *,
        cluster: ClusterFlags,
        model: str | None,
        address: str | None,
        url: str | None,
        cacert: str | None,
        **others: Any,
    ) -> Any:
        return command(target=TargetFlags(cluster, model, address, url, cacert), **others)

    return with_flags
