"""Waits for a server by its readiness probe, like the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from isvc_operator.limits import LINE_BYTES
from isvc_operator.local.container import LOOPBACK, Probe
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.processes import Running
from isvc_operator.text import one_line

_PERIOD = 0.25  # seconds
_TIMEOUT = aiohttp.ClientTimeout(total=2)


async def until_ready(server: Running, deadline: float, write: Callable[[str], None]) -> None:
    """Return when the probe succeeds; raises RunFailed if the server exits first or is not ready in time."""
    probe = server.process.probe
    if probe is None:
        return
    reported = reason = ""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        try:
            async with asyncio.timeout(deadline):
                while (reason := await _reason_not_ready(session, probe)) != "":
                    if reason != reported:
                        write(f"{server.process.name} is not ready: {reason}")
                        reported = reason
                    await asyncio.wait([server.exited], timeout=_PERIOD)
                    if server.exited.done():
                        raise server.failure()
        except TimeoutError as error:
            raise RunFailed(f"{server.process.name} was not ready after {deadline:g} s: {reason}") from error
    write(f"{server.process.name} is ready")


async def _reason_not_ready(session: aiohttp.ClientSession, probe: Probe) -> str:
    """Return why the server is not ready; empty if it is."""
    try:
        if probe.path is None:
            _, writer = await asyncio.open_connection(LOOPBACK, probe.port)
            writer.close()
            return ""
        async with session.get(f"http://{LOOPBACK}:{probe.port}{probe.path}") as response:
            if response.status < 400:
                return ""
            message = (await response.content.read(LINE_BYTES)).decode(errors="replace").strip()
            return f"{response.status} {one_line(message)}"
    except (OSError, aiohttp.ClientError, TimeoutError):
        return f"port {probe.port} accepts no connection yet"
