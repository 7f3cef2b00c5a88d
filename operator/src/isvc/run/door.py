"""Tells the other commands of this user what a run serves, over a socket in the run's private folder."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from aiohttp import web

from isvc.client_errors import WithoutClientErrors
from isvc.dashboard.request import KnownRequests
from isvc.run.cluster import LocalCluster
from isvc.run.errors import UnusableInput
from isvc.source.runs import SOCKET, document_of
from isvc.view.source import ContainerKey, LogOptions
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey

_log = logging.getLogger(__name__)
_log.addFilter(WithoutClientErrors())


@asynccontextmanager
async def door(
    cluster: LocalCluster,
    *,
    url: str,
    dashboard: str,
    known: KnownRequests,
) -> AsyncIterator[None]:
    """Answer commands; ``url`` is the ingress, ``dashboard`` the address of the page.

    ``known`` are requests for the models of a service.
    """

    async def run(_: web.Request) -> web.Response:
        return web.json_response({"url": url, "dashboard": dashboard})

    async def services(request: web.Request) -> web.StreamResponse:
        """All services, null, and then each one that has changed: a line of JSON each."""
        response = web.StreamResponse()
        await response.prepare(request)
        with cluster.read_changes() as reader:
            for key, service in list(cluster.services.items()):
                await response.write(_line(document_of(key, service.related())))
            await response.write(_line(None))
            while True:
                for key in await reader.wait():
                    await response.write(_line(document_of(key, cluster.related(key))))

    async def samples_of(request: web.Request) -> web.Response:
        key = ServiceKey(request.query["namespace"], request.query["name"])
        found = await known(key)
        return web.json_response(
            {model: (protocol, body.decode(errors="replace")) for model, (protocol, body) in found.items()}
        )

    async def log(request: web.Request) -> web.StreamResponse:
        asked = request.query
        key = ContainerKey(
            service=ServiceKey(asked["namespace"], asked["name"]), pod=asked["pod"], container=asked["container"]
        )
        options = LogOptions(
            lines=int(asked["lines"]),
            follow=asked["follow"] == "1",
            previous=asked["previous"] == "1",
            since_seconds=int(asked["since"]) if asked["since"] else None,
        )
        lines = cluster.log(key, options)
        response = web.StreamResponse()
        async with aclosing(lines):
            try:
                async for line in lines:
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(_line(line))
            except UnusableInput as error:
                return web.Response(status=404, text=str(error))
        await response.prepare(request)
        return response

    async def metrics(request: web.Request) -> web.Response:
        asked = request.query
        try:
            return web.Response(text=await cluster.metrics(ServiceKey(asked["namespace"], asked["name"]), asked["pod"]))
        except OperatorError as error:
            return web.Response(status=404, text=str(error))

    application = web.Application()
    answers = {"/run": run, "/services": services, "/samples": samples_of, "/log": log, "/metrics": metrics}
    application.add_routes([web.get(path, answer) for path, answer in answers.items()])
    runner = web.AppRunner(application, access_log=None, logger=_log, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(cluster.folder / SOCKET)).start()
        yield
    finally:
        await runner.cleanup()


def _line(document: object) -> bytes:
    return json.dumps(document).encode() + b"\n"
