"""The files that pages load: ours, and those of htmx and uPlot as their packages have them (`assets/vendor`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from isvc.dashboard.markup import HERE

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class _Asset:
    content: bytes
    content_type: str
    etag: str


class Assets:
    """A few files, read once. They say nothing about services, so they need no token."""

    def __init__(self) -> None:
        files = (file for file in (HERE / "assets").rglob("*") if file.suffix in _TYPES)
        self._assets = {file.name: _read(file) for file in files}

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route."""
        return (web.get("/assets/{name}", self.get),)

    async def get(self, request: web.Request) -> web.Response:
        """Return a file; nothing if the browser has it."""
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        response = web.Response(body=asset.content, content_type=asset.content_type, charset="utf-8")
        response.etag = asset.etag
        response.headers["Cache-Control"] = "no-cache"
        if any(tag.value == asset.etag for tag in request.if_none_match or ()):
            raise web.HTTPNotModified(headers={"ETag": f'"{asset.etag}"'})
        return response


def _read(file: Path) -> _Asset:
    content = file.read_bytes()
    return _Asset(content, _TYPES[file.suffix], hashlib.sha256(content).hexdigest()[:16])
