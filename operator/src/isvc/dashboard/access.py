"""Who may look, and at what.

`RunToken` is for a page on loopback: whoever has the token of this run sees all that the source has. A page that
several people open asks each to sign in (`sign_in`).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from isvc.dashboard.errors import HttpRefusal
from isvc.view.source import Reachable, ServiceSource, Shown
from isvc_operator.manifests import ServiceKey

_NOT_OPENED = (
    "open the address that was printed when the dashboard started: it contains a token; isvc dashboard prints that of "
    "isvc run again"
)


class Viewer(Protocol):
    """A person who looks."""

    @property
    def name(self) -> str:
        """How the person is called; empty if everybody is the same."""
        ...

    @property
    def reach(self) -> Reachable:
        """What reads logs and sends requests with the person's rights."""
        ...

    def may_see(self, key: ServiceKey) -> bool:
        """Whether pages about the service are shown to the person."""
        ...

    def hidden(self, key: ServiceKey) -> frozenset[Shown]:
        """Return what of the service is not shown to the person."""
        ...

    def notes(self) -> Sequence[str]:
        """Return what the person may not see, each in a sentence."""
        ...


VIEWER = web.RequestKey("viewer", Viewer)


class Authenticator(Protocol):
    """Finds the viewer of a request."""

    async def viewer(self, request: web.Request) -> Viewer:
        """Return who asks; raises HttpRefusal, or a redirect of aiohttp."""
        ...

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes that need no viewer, such as a form to sign in."""
        ...


@dataclass(frozen=True)
class Everything:
    """The Viewer who sees all that a source has."""

    reach: ServiceSource
    name: str = ""

    def may_see(self, _key: ServiceKey) -> bool:
        """Each service is shown."""
        return True

    def hidden(self, _key: ServiceKey) -> frozenset[Shown]:
        """Nothing of it is hidden."""
        return frozenset()

    def notes(self) -> Sequence[str]:
        """Return what the source itself does not see."""
        return self.reach.hidden()


class RunToken:
    """A token that is made for each run and printed with the page's address: other users can open a port of loopback.

    The address with the token sets a cookie and leads to the same address without it. Browsers send a cookie to all
    ports of its host: its value is not the token, and the ingress of a run passes none of these cookies on.
    """

    def __init__(self, token: str, source: ServiceSource, *, port: int) -> None:
        self._token = token
        self._session = secrets.token_urlsafe(24)
        self._viewer = Everything(source)
        self._cookie = f"isvc-dashboard-{port}"  # cookies are of a host, whatever its port

    def routes(self) -> Sequence[web.RouteDef]:
        """Return no route: the address that was printed is the way in."""
        return ()

    async def viewer(self, request: web.Request) -> Viewer:
        """Return the viewer who sees everything; raises HttpRefusal without the token."""
        if "token" in request.query and request.method == "GET":
            raise self._entered(request)
        if not _are_equal(request.cookies.get(self._cookie, ""), self._session):
            raise HttpRefusal(403, _NOT_OPENED)
        return self._viewer

    def _entered(self, request: web.Request) -> Exception:
        if not _are_equal(request.query["token"], self._token):
            return HttpRefusal(
                403, "the token of this address is of an earlier run; open the address that was printed last"
            )
        there = web.HTTPSeeOther(request.rel_url.without_query_params("token"))
        # Not Strict, which would not be sent when a page of another origin, such as a terminal's, has the link.
        there.set_cookie(self._cookie, self._session, httponly=True, samesite="Lax", path="/")
        return there


def _are_equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
