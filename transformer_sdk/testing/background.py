"""An HTTP server of this SDK in a thread of the test's process, on a port of this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager

from data_plane.server.app import App
from data_plane.server.run import HttpServer, listen

MakeApp = Callable[[], AbstractAsyncContextManager[App]]
_GRACE_S = 5
_LOCAL = "127.0.0.1"


class BackgroundServer:
    """Serves from `start` to `stop`. The application is made in the event loop that serves it."""

    def __init__(self, make_app: MakeApp) -> None:
        self._make_app = make_app
        self._server: Future[HttpServer] = Future()
        self.port = 0

    def start(self) -> None:
        """Return when requests are taken; raises what the application could not be made for."""
        self._listener = listen(_LOCAL, 0)
        self.port = self._listener.getsockname()[1]
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=f"server-{self.port}", daemon=True)
        self._thread.start()
        self._server.result()

    def stop(self) -> None:
        """Requests under way are answered first."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            server = self._server.result()
            self._loop.call_soon_threadsafe(server.drain)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with self._make_app() as app:
                server = HttpServer(app, self._listener, grace_period_s=_GRACE_S)
                self._server.set_result(server)
                await server.run_until_drained()
        except BaseException as error:
            if not self._server.done():
                self._server.set_exception(error)
            raise
