"""What every request has to pass, and what every response says: no other host, no other page, no other user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from jinja2 import Environment

from isvc import limits
from isvc.dashboard.access import VIEWER, Authenticator
from isvc.dashboard.errors import HttpRefusal, NotSignedIn
from isvc.dashboard.sign_in import SIGN_IN
from isvc_operator.errors import OperatorError
from isvc_operator.text import one_line

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HEALTH = "/healthz"
_OPEN = ("/assets/", SIGN_IN)  # say nothing about services

# Nothing but this server's own files: no script or style inside a page, and nothing of another host.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, a form of a page is sent with the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every response has."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


class Guard:
    """The middleware: refuses what a foreign page or another user sends, and writes errors as pages.

    ``origins`` are those of the page, such as ``http://127.0.0.1:8088``.
    """

    def __init__(self, access: Authenticator, templates: Environment, *, origins: Sequence[str]) -> None:
        self._access = access
        self._templates = templates
        self._origins = frozenset(origins)
        self._hosts = {origin.partition("://")[2]: None for origin in origins}

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Handle a request, or refuse it."""
        if request.path == HEALTH:
            return web.Response()
        try:
            self._check_origin(request)
            if not request.path.startswith(_OPEN):
                request[VIEWER] = await self._access.viewer(request)
            return await handler(request)
        except ConnectionError:
            return web.Response()  # to nobody: the client has gone
        except HttpRefusal as refused:
            return self._error(request, refused.status, str(refused))
        except NotSignedIn as error:
            return self._error(request, 401, str(error))
        except OperatorError as error:
            return self._error(request, 502, str(error))
        except web.HTTPRequestEntityTooLarge:
            return self._error(request, 413, f"the request is larger than {limits.DASHBOARD_REQUEST_BYTES:,} bytes")
        except web.HTTPNotFound:
            return self._error(request, 404, "there is no such page")
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return self._error(request, error.status, error.reason)

    def _check_origin(self, request: web.Request) -> None:
        """Refuse a name of another host, which may be made to resolve to loopback, and requests of foreign pages."""
        if request.host not in self._hosts:
            host, own = one_line(request.host, 253), " or ".join(self._hosts)
            raise HttpRefusal(421, f"{host} is not the host of this page; open it at {own}")
        mode, site = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Site", "none")
        is_opened = mode == "navigate" and request.method == "GET"
        if site not in ("same-origin", "none") and not is_opened:
            raise HttpRefusal(403, "the request comes from a page of another origin")
        origin = request.headers.get("Origin", "")
        is_own = origin in self._origins and origin.partition("://")[2] == request.host
        if request.method not in ("GET", "HEAD") and not is_own:
            raise HttpRefusal(403, "the request comes from a page of another origin")

    def _error(self, request: web.Request, status: int, message: str) -> web.Response:
        name = "parts/unanswered.html" if "HX-Request" in request.headers else "error.html"
        text = self._templates.get_template(name).render(status=status, message=message)
        return web.Response(status=status, text=text, content_type="text/html")
