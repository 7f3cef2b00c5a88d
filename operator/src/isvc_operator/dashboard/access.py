"""Who may look, and at what.

`RunToken` is for a page on loopback: whoever has the token of this run sees all that the source has. A page in a
cluster has an Access of its own, which asks the API server what a person may see.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from isvc_operator.dashboard.errors import Refused
from isvc_operator.manifests import ServiceKey


def _all(_key: ServiceKey) -> bool:
    return True


@dataclass(frozen=True)
class Viewer:
    """A person, and the services whose pages are shown to, and whose endpoints are called for, that person."""

    may_see: Callable[[ServiceKey], bool] = _all
    may_send: Callable[[ServiceKey], bool] = _all


class Access(Protocol):
    """Finds the viewer of a request."""

    async def viewer(self, request: web.Request) -> Viewer:
        """Return who asks; raises Refused, or a redirect of aiohttp."""
        ...


class RunToken:
    """A token that is made for each run and printed with the page's address: other users can open a port of loopback.

    The address with the token sets a cookie and leads to the same address without it.
    """

    def __init__(self, token: str, *, port: int) -> None:
        self._token = token
        self._cookie = f"isvc-dashboard-{port}"  # cookies are of a host, whatever its port

    async def viewer(self, request: web.Request) -> Viewer:
        """Return the viewer who sees everything; raises Refused without the token."""
        if "token" in request.query and request.method == "GET":
            raise self._entered(request)
        if not self._is_token(request.cookies.get(self._cookie, "")):
            raise Refused(403, "open the address that was printed when the dashboard started: it contains a token")
        return Viewer()

    def _entered(self, request: web.Request) -> Exception:
        if not self._is_token(request.query["token"]):
            return Refused(
                403, "the token of this address is of an earlier run; open the address that was printed last"
            )
        there = web.HTTPSeeOther(request.rel_url.without_query_params("token"))
        # Not Strict, which would not be sent when a page of another origin, such as a terminal's, has the link.
        there.set_cookie(self._cookie, self._token, httponly=True, samesite="Lax", path="/")
        return there

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())
