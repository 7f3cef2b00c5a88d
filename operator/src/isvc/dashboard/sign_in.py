"""The way in where several people open one page: each signs in with a token of the cluster.

A proxy that has signed people in itself may send a token with each request (``Authorization: Bearer``). Otherwise
there is a form, and a cookie for the rest of the session. The tokens stay in the memory of this process.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web
from jinja2 import Environment

from isvc import limits
from isvc.dashboard.access import Viewer
from isvc.dashboard.errors import HttpRefusal, NotSignedIn
from isvc.dashboard.fields import fields_of, text_of

SIGN_IN: Final = "/sign-in"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750
_BEARER: Final = "bearer "


class People(Protocol):
    """Finds people by their tokens."""

    async def person(self, token: str) -> Viewer:
        """Return the owner of a token; raises NotSignedIn."""
        ...


@dataclass(frozen=True)
class _Session:
    token: str
    owner: str
    ends: float


class SignIn:
    """An Authenticator for people with tokens. ``is_secure``: the page is opened by HTTPS; ``clock`` counts seconds."""

    def __init__(
        self, people: People, templates: Environment, *, is_secure: bool, port: int, clock: Callable[[], float]
    ) -> None:
        self._people = people
        self._templates = templates
        self._is_secure = is_secure
        # Cookies are of a host, whatever its port; with __Host- no other host can set one.
        self._cookie = "__Host-isvc-session" if is_secure else f"isvc-session-{port}"
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return (
            web.get(SIGN_IN, self.form),
            web.post(SIGN_IN, self.enter),
            web.post("/sign-out", self.leave),
        )

    async def viewer(self, request: web.Request) -> Viewer:
        """Return who has sent the request; a page that nobody has signed in for leads to the form."""
        token = _bearer(request) or self._token(request)
        try:
            if token:
                return await self._people.person(token)
            why = "sign in first"
        except NotSignedIn as error:
            self._sessions.pop(request.cookies.get(self._cookie, ""), None)
            why = str(error)
        if request.method == "GET" and request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":
            raise web.HTTPSeeOther(SIGN_IN)
        raise HttpRefusal(401, why)

    async def form(self, _request: web.Request) -> web.Response:
        """Return the form."""
        return self._form("", 200)

    async def enter(self, request: web.Request) -> web.Response:
        """Begin a session for the token of the form."""
        try:
            token = await _entered(request)
            person = await self._people.person(token)
        except NotSignedIn as error:
            return self._form(str(error), 401)
        session = self._begin(token, person.name)
        there = web.HTTPSeeOther("/")
        there.set_cookie(
            self._cookie, session, httponly=True, samesite="Strict", secure=self._is_secure, path="/",
            max_age=int(limits.DASHBOARD_SESSION_SECONDS),
        )  # fmt: skip
        raise there

    async def leave(self, request: web.Request) -> web.Response:
        """End the session."""
        self._sessions.pop(request.cookies.get(self._cookie, ""), None)
        there = web.HTTPSeeOther(SIGN_IN)
        there.del_cookie(self._cookie, path="/", secure=self._is_secure)
        raise there

    def _begin(self, token: str, owner: str) -> str:
        """Begin a session; beyond their number, the person's own oldest one ends, or else the oldest of all."""
        own = [name for name, other in self._sessions.items() if other.owner == owner]
        if len(own) >= limits.DASHBOARD_PERSON_SESSIONS:
            del self._sessions[own[0]]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = _Session(token, owner, self._clock() + limits.DASHBOARD_SESSION_SECONDS)
        if len(self._sessions) > limits.DASHBOARD_PEOPLE:
            self._sessions.popitem(last=False)
        return session

    def _token(self, request: web.Request) -> str:
        session = self._sessions.get(request.cookies.get(self._cookie, ""))
        return session.token if session and session.ends > self._clock() else ""

    def _form(self, error: str, status: int) -> web.Response:
        text = self._templates.get_template("sign-in.html").render(error=error)
        return web.Response(status=status, text=text, content_type="text/html")


async def _entered(request: web.Request) -> str:
    """Return the token of the form; raises NotSignedIn. Anybody may send one, so little is read."""
    try:
        fields = await fields_of(request.clone(client_max_size=limits.DASHBOARD_TOKEN_BYTES))
    except web.HTTPRequestEntityTooLarge:
        fields = {}
    token = text_of(fields, "token").strip()
    if not _TOKEN.fullmatch(token):
        raise NotSignedIn("this is not a token")
    return token


def _bearer(request: web.Request) -> str:
    header = request.headers.get("Authorization", "")
    token = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""
    return token if len(token) <= limits.DASHBOARD_TOKEN_BYTES and _TOKEN.fullmatch(token) else ""
