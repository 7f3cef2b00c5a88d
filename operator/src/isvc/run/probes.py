"""Probes of a running container, by the kubelet's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp

from isvc.limits import PROBE_RESPONSE_BYTES
from isvc.run.container import LOOPBACK, Probe, Process
from isvc.run.errors import RunFailed
from isvc.run.processes import Group
from isvc_operator.responses import read_up_to
from isvc_operator.text import one_line

# Seconds between two attempts while a container starts: a laptop has few containers, and someone waits for them.
_STARTING_PERIOD = 0.25

Check = Callable[[], Awaitable[str]]  # why a probe does not succeed; empty if it does


def check_of(probe: Probe, process: Process, group: Group, session: aiohttp.ClientSession) -> Check:
    """Return what runs the probe once."""

    async def check() -> str:
        try:
            async with asyncio.timeout(probe.timeout):
                return await _attempt(probe, process, group, session)
        except TimeoutError:
            return f"no answer to its probe within {probe.timeout:g} s"
        except (OSError, aiohttp.ClientError) as error:
            port = next(iter(probe.action.values())).get("port")
            if isinstance(error, ConnectionRefusedError | aiohttp.ClientConnectorError) and port:
                return f"port {port} accepts no connection yet"
            return one_line(f"its probe fails: {error}")

    return check


async def wait_until_good(probe: Probe, check: Check, report: Callable[[str], None]) -> None:
    """Return when the probe has succeeded as often as it should; each other reason is reported."""
    await asyncio.sleep(probe.initial_delay)
    reported, good = "", 0
    while True:
        reason = await check()
        good = 0 if reason else good + 1
        if good >= probe.successes:
            return
        if reason and reason != reported:
            report(reason)
            reported = reason
        await asyncio.sleep(min(_STARTING_PERIOD, probe.period))


async def wait_until_bad(probe: Probe, check: Check) -> str:
    """Return why the probe has failed, when it has failed as often in a row as it may."""
    failures = 0
    while True:
        await asyncio.sleep(probe.period)
        reason = await check()
        failures = failures + 1 if reason else 0
        if failures >= probe.failures:
            return reason


async def _attempt(probe: Probe, process: Process, group: Group, session: aiohttp.ClientSession) -> str:
    ((kind, action),) = probe.action.items()
    port = action.get("port")
    match kind:
        case "tcpSocket":
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()
            return ""
        case "httpGet":
            url = f"{action.get('scheme', 'HTTP').lower()}://{LOOPBACK}:{port}{action.get('path') or '/'}"
            headers = [(item["name"], item.get("value", "")) for item in action.get("httpHeaders", ())]
            async with session.get(url, headers=headers, ssl=False, allow_redirects=False) as response:
                # Also of a good one: a server whose response is not read gets a reset, and logs it.
                content = await read_up_to(response, PROBE_RESPONSE_BYTES)
                if response.status < 400:
                    return ""
                return f"{response.status} {one_line(content.decode(errors='replace').strip())}"
        case "grpc":
            return await _grpc(port, action.get("service") or "")
        case _:
            return await _exec(replace(process, command=action["command"]), group, probe.timeout)


async def _grpc(port: int, service: str) -> str:
    import grpc.aio  # here, because few servers are probed by it

    serving = b"\x08\x01"  # HealthCheckResponse(status=SERVING)
    name = service.encode()[:127]
    request = b"\n" + bytes([len(name)]) + name if name else b""
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        try:
            ask: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            answer = await ask(request)
        except grpc.aio.AioRpcError as error:
            return one_line(f"{error.code().name} {error.details()}")
    return "" if answer == serving else "its health service reports that it is not serving"


async def _exec(process: Process, group: Group, timeout: float) -> str:
    try:
        succeeded = await group.succeeds(process, timeout)
    except RunFailed as error:
        return str(error)
    return "" if succeeded else f"the command {one_line(' '.join(process.command))} does not succeed"
