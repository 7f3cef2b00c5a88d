"""The pages: all services, and one service on several tabs. Each is sent whole, then its changes by a stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from jinja2 import Environment
from markupsafe import Markup

from isvc import limits
from isvc.dashboard.access import VIEWER, Viewer
from isvc.dashboard.errors import HttpRefusal
from isvc.dashboard.feed import Feed
from isvc.dashboard.markup import anchor
from isvc.dashboard.scraping import Scraping
from isvc.dashboard.states import ShownState, summary_of, told_once
from isvc.dashboard.stream import HEARTBEAT, EventStream, Streams
from isvc.dashboard.tabs import TABS
from isvc.dashboard.timeline import line_of
from isvc.view.source import ServiceSource
from isvc.view.values import ServiceView
from isvc_operator.manifests import LAST_APPLIED, Manifest, ServiceKey, annotations_of

Parts = dict[str, Markup]  # HTML by the id of the element that it is in


class Pages:
    """What the pages show, and the streams that keep them up to date."""

    def __init__(
        self, source: ServiceSource, feed: Feed, scraping: Scraping, streams: Streams, templates: Environment
    ) -> None:
        self._source = source
        self._feed = feed
        self._scraping = scraping
        self._streams = streams
        self._templates = templates

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        tabs = "|".join(filter(None, TABS))
        return (
            web.get("/", self.services),
            web.get("/events", self.services_events),
            web.get("/services/{namespace}/{name}", self.service),
            web.get("/services/{namespace}/{name}/events", self.service_events),
            web.get(f"/services/{{namespace}}/{{name}}/{{tab:{tabs}}}", self.service),
        )

    # --- all services -------------------------------------------------------------------------------------

    async def services(self, request: web.Request) -> web.Response:
        """Return the page of all services."""
        viewer = request[VIEWER]
        ordered = sorted(self._visible(viewer), key=lambda item: summary_of(item[1]).state.rank)
        return self._page(
            "services.html",
            rows=Markup("").join(self._row(key, service) for key, service in ordered),
            summary=self._summary(viewer),
            hidden=viewer.notes(),
            viewer=viewer,
        )

    async def services_events(self, request: web.Request) -> web.StreamResponse:
        """Send all rows, then those that change, come or go."""
        viewer = request[VIEWER]
        async with self._streams.begin(request) as stream:
            with self._feed.changed.read() as changes:
                visible = dict(self._visible(viewer))
                sent = {key: self._row(key, service) for key, service in visible.items()}
                await stream.send(_partials({"rows": "".join(sent.values()), "summary": self._summary(viewer)}))
                while True:
                    with self._scraping.watching([*sent]):
                        while True:
                            changed = await changes.wait(HEARTBEAT)
                            visible = dict(self._visible(viewer))
                            rows = {
                                key: self._row(key, service) if key in changed or key not in sent else sent[key]
                                for key, service in visible.items()
                            }
                            if different := "".join(_row_changes(rows, sent)):
                                await stream.send(different + _partials({"summary": self._summary(viewer)}))
                            is_other, sent = rows.keys() != sent.keys(), rows
                            if is_other:
                                break

    def _visible(self, viewer: Viewer) -> Sequence[tuple[ServiceKey, ServiceView]]:
        keys = [key for key in self._source.keys() if viewer.may_see(key)]  # noqa: SIM118 - not a dict
        seen = ((key, self._feed.service(key, viewer.hidden(key))) for key in keys)
        return [(key, service) for key, service in seen if service is not None]

    def _row(self, key: ServiceKey, service: ServiceView) -> str:
        points = self._scraping.points(key)
        summary, rate = summary_of(service), points[-1].rate if points else None
        p95 = next((point.p95 for point in reversed(points) if point.p95 is not None), None)
        return self._part("row", key=key, service=service, summary=summary, rate=rate, p95=p95)

    def _summary(self, viewer: Viewer) -> str:
        counts = Counter(summary_of(service).state for _, service in self._visible(viewer))
        return self._part("summary", counts=counts, total=counts.total(), states=tuple(ShownState))

    # --- one service ----------------------------------------------------------------------------------------

    async def service(self, request: web.Request) -> web.Response:
        """Return a page about one service."""
        key, service = self.find(request)
        viewer, tab = request[VIEWER], request.match_info.get("tab", "")
        parts, kept = self._parts(viewer, key, service, tab), limits.DASHBOARD_LOG_LINES
        return self._page(
            f"{tab or 'overview'}.html", viewer=viewer, key=key, tab=tab, tabs=TABS, parts=parts, lines_kept=kept
        )

    async def service_events(self, request: web.Request) -> web.StreamResponse:
        """Send the parts of a page that change; for the charts, also each new point."""
        key, _ = self.find(request)
        viewer, tab = request[VIEWER], request.query.get("tab", "")
        if tab not in TABS:
            raise HttpRefusal(404, "there is no such page")
        async with self._streams.begin(request) as stream:
            with self._feed.changed.read() as changes, self._scraping.watching([key] if TABS[tab].has_charts else []):
                changed, sent, last = frozenset((key,)), Parts(), 0.0
                while True:
                    if key in changed or not changed:
                        await self._send_parts(stream, viewer, key, tab, sent)
                        if viewer.may_see(key):
                            last = await self._send_points(stream, key, last)
                    changed = await changes.wait(TABS[tab].redrawn)

    async def _send_parts(self, stream: EventStream, viewer: Viewer, key: ServiceKey, tab: str, sent: Parts) -> None:
        service = self._feed.service(key, viewer.hidden(key)) if viewer.may_see(key) else None
        parts = self._parts(viewer, key, service, tab) if service else {"head": self._part("gone", key=key)}
        different = {name: html for name, html in parts.items() if sent.get(name) != html}
        sent.update(different)
        if different:
            await stream.send(_partials(different))

    async def _send_points(self, stream: EventStream, key: ServiceKey, last: float) -> float:
        points = [point for point in self._scraping.points(key) if point.at > last]
        if points:
            await stream.send(json.dumps([asdict(point) for point in points]), event="points")
        return points[-1].at if points else last

    def find(self, request: web.Request) -> tuple[ServiceKey, ServiceView]:
        """Return the service of a path; raises HttpRefusal if it does not exist for the viewer."""
        key = ServiceKey(request.match_info["namespace"], request.match_info["name"])
        viewer = request[VIEWER]
        service = self._feed.service(key, viewer.hidden(key)) if viewer.may_see(key) else None
        if service is None:
            raise HttpRefusal(404, f"there is no service {key.name} in namespace {key.namespace}")
        return key, service

    def _parts(self, viewer: Viewer, key: ServiceKey, service: ServiceView, tab: str) -> Parts:
        summary, address = summary_of(service), self._source.address(key)
        parts = {"head": self._part("head", key=key, summary=summary, address=address, tabs=TABS, tab=tab)}
        if tab == "":
            causes = told_once(service)
            parts["overview"] = self._part("overview", key=key, service=service, summary=summary, causes=causes)
        if tab == "timeline":
            line = line_of(service, datetime.now(UTC))
            parts["start"] = self._part("start", line=line)
            parts["history"] = self._part("history", line=line, history=service.history)
        if tab == "logs":
            parts["container"] = self._part("containers", service=service)
        if tab == "yaml" and (related := self._source.related(key)):
            body, children = related.service, related.without(viewer.hidden(key)).children
            parts["yaml"] = self._part(
                "yaml", service=service, applied=_applied(body), status=body.get("status"), children=children
            )
        return parts

    # --- templates ------------------------------------------------------------------------------------------

    def _page(self, template: str, **context: Any) -> web.Response:
        text = self._templates.get_template(template).render(**context)
        return web.Response(text=text, content_type="text/html")

    def _part(self, name: str, **context: Any) -> Markup:
        return Markup(self._templates.get_template(f"parts/{name}.html").render(**context))  # noqa: S704 - escaped by jinja


def _partials(parts: Mapping[str, str]) -> str:
    """Return HTML by which htmx updates the elements with these ids, and keeps what is the same in them."""
    return "".join(_partial(name, "innerMorph", html) for name, html in parts.items())


def _row_changes(rows: Mapping[ServiceKey, str], sent: Mapping[ServiceKey, str]) -> Iterator[str]:
    """Yield HTML by which htmx makes the rows that were sent these; the page puts them in order."""
    for key in sent.keys() - rows.keys():
        yield _partial(anchor(key), "delete", "")
    for key, row in rows.items():
        if row != sent.get(key, row):
            yield _partial(anchor(key), "outerMorph", row)
    if new := "".join(row for key, row in rows.items() if key not in sent):
        yield _partial("rows", "beforeend", new)


def _partial(name: str, swap: str, html: str) -> str:
    return f'<hx-partial hx-target="#{name}" hx-swap="{swap}">{html}</hx-partial>'


def _applied(service: Manifest) -> Manifest:
    """Return the service as it was applied: as kubectl keeps it, else its spec."""
    try:
        applied = json.loads(annotations_of(service).get(LAST_APPLIED, ""))
    except (ValueError, RecursionError):
        applied = None
    if isinstance(applied, dict) and applied.get("kind") == service["kind"]:  # whoever may annotate it can write there
        metadata = applied.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("annotations") or {}, dict):
            return applied
    return {name: value for name, value in service.items() if name != "status"}
