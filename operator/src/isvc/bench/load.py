"""Sends the requests of a plan. At a rate, each request's time begins when it is due, whatever came back before.

A closed loop waits for a slow server, and so sends it less: its latencies leave out what clients would have waited
(coordinated omission). At a rate, a request that finds no free connection waits for one, and that time counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import selectors
import ssl
from collections import deque
from collections.abc import Callable
from time import perf_counter

from isvc.bench.connection import Connection
from isvc.bench.errors import Unreachable
from isvc.bench.plan import AddressedRequest, LoadPlan, Responses

_SWEEP_S = 0.1
_RETRY_S = 0.1


def run(target: AddressedRequest, plan: LoadPlan, *, tls: ssl.SSLContext | None = None) -> Responses:
    """Send all requests and return what came back; raise Unreachable if no first connection can be opened."""
    with asyncio.Runner(loop_factory=_precise_loop if plan.rate else _fast_loop()) as runner:
        return runner.run(load(target, plan, tls))


async def load(target: AddressedRequest, plan: LoadPlan, tls: ssl.SSLContext | None = None) -> Responses:
    """Send all requests, or those until it is cancelled, which Ctrl-C does; return what came back until then."""
    return await _Load(target, plan, tls).run()


class _Load:
    """One run. A connection is free, or has a request under way; at a rate, requests may wait for a connection."""

    def __init__(self, target: AddressedRequest, plan: LoadPlan, tls: ssl.SSLContext | None) -> None:
        self._target = target
        self._plan = plan
        self._tls = tls
        self._seen = Responses()
        self._left = plan.requests
        self._connections: set[Connection] = set()
        self._free: list[Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[float] = deque()
        self._under_way = 0
        self._is_ending = False
        self._is_done = asyncio.Event()

    async def run(self) -> Responses:
        """Send all requests."""
        try:
            self._free.append(await self._connect())
        except OSError as error:
            where = f"{self._target.host}:{self._target.port}"
            raise Unreachable(f"cannot connect to {where}: {self._reason(error)}") from error
        if not self._plan.rate:
            await self._open_all()
        cpu, started = _cpu_seconds(), perf_counter()
        self._ends = started + self._plan.seconds
        sweep = asyncio.create_task(self._sweep())
        try:
            await (self._at_rate(started) if self._plan.rate else self._in_turns())
        except asyncio.CancelledError:
            self._seen.interrupted = True
        finally:
            sweep.cancel()
        self._seen.seconds, self._seen.cpu_seconds = perf_counter() - started, _cpu_seconds() - cpu
        self._end()
        return self._seen

    # --- the two ways to send --------------------------------------------------------------------------

    async def _in_turns(self) -> None:
        free, self._free = self._free, []
        for connection in free:
            self._take(connection)
        await self._wait(self._plan.seconds)
        self._is_ending = True
        if self._under_way:
            await self._wait(self._plan.timeout)

    async def _at_rate(self, started: float) -> None:
        for number in range(self._plan.requests):
            due = started + number / self._plan.rate
            if due >= self._ends:
                break
            # Also when it is late: what comes back is read before the next request is sent.
            await asyncio.sleep(max(0.0, due - perf_counter()))
            self._left -= 1
            if self._free:
                self._send(self._free.pop(), due)
            else:
                self._waiting.append(due)
                self._open_one_more()
        # The time of the last request belongs to the run: without it, few requests would look like a higher rate.
        ends = min(self._ends, started + self._plan.requests / self._plan.rate)
        await asyncio.sleep(max(0.0, ends - perf_counter()))
        self._is_ending = True
        if self._under_way or self._waiting:
            await self._wait(self._plan.timeout)

    async def _wait(self, seconds: float) -> None:
        """Wait until all that was sent has its response, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_done.wait()

    def _take(self, connection: Connection) -> None:
        """Give a free connection its next request, if there is one."""
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        elif not self._plan.rate and self._left and (now := perf_counter()) < self._ends:
            self._left -= 1
            self._send(connection, now)
        else:
            self._free.append(connection)

    def _send(self, connection: Connection, due: float) -> None:
        connection.due, connection.sent = due, perf_counter()
        if self._plan.rate:
            self._seen.late.append(connection.sent - due)
        self._under_way += 1
        connection.send(self._target.message)

    # --- what comes back -------------------------------------------------------------------------------

    def responded(self, connection: Connection, status: int) -> None:
        """Count a response, and send the next request."""
        self._seen.latencies.append(perf_counter() - connection.due)
        self._seen.statuses[status] += 1
        self._under_way -= 1
        if connection.is_open:
            self._take(connection)
        self._check()

    def lost(self, connection: Connection, reason: str) -> None:
        """Count a request that was under way, and open another connection where one is missing."""
        if connection not in self._connections:  # it is told again of those that it has ended itself
            return
        self._connections.remove(connection)
        self._seen.received += connection.received
        if connection in self._free:
            self._free.remove(connection)
        if connection.is_busy:
            self._under_way -= 1
            self._seen.errors[reason] += 1
        if self._waiting or (not self._plan.rate and self._left and not self._is_ending):
            self._open_one_more()
        self._check()

    def _check(self) -> None:
        if not self._under_way and not self._waiting and (self._is_ending or not self._left):
            self._is_done.set()

    async def _sweep(self) -> None:
        """End requests that take too long. One timer for all of them costs less than one for each."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            oldest = perf_counter() - self._plan.timeout
            for connection in [each for each in self._connections if each.is_busy and each.sent < oldest]:
                connection.abort(f"no response in {self._plan.timeout:g} s")

    def _end(self) -> None:
        self._seen.unsent = 0 if self._seen.interrupted else len(self._waiting)
        self._waiting.clear()
        self._left, self._is_ending = 0, True
        for task in self._opening:
            task.cancel()
        for connection in [*self._connections]:
            connection.is_busy = connection.is_busy and not self._seen.interrupted
            connection.abort(f"no response in {self._plan.timeout:g} s")
            self.lost(connection, connection.reason)

    # --- connections -----------------------------------------------------------------------------------

    async def _open_all(self) -> None:
        missing = self._plan.connections - 1
        opened = await asyncio.gather(*(self._connect() for _ in range(missing)), return_exceptions=True)
        for one in opened:
            if isinstance(one, Connection):
                self._free.append(one)
            else:
                self._seen.errors[f"cannot connect: {self._reason(one)}"] += 1

    def _open_one_more(self) -> None:
        if len(self._connections) + len(self._opening) < self._plan.connections:
            task = asyncio.get_running_loop().create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self) -> None:
        """Open a connection, again and again while requests need one."""
        while not self._is_ending or self._waiting:
            try:
                self._take(await self._connect())
                return
            except OSError as error:
                self._seen.errors[f"cannot connect: {self._reason(error)}"] += 1
                await asyncio.sleep(_RETRY_S)

    def _reason(self, error: BaseException) -> str:
        """Return why no connection was made; the error of our own timeout has no text."""
        return str(error) or f"no answer in {self._plan.timeout:g} s"

    async def _connect(self) -> Connection:
        """Raise OSError, of which a timeout is one."""
        name = self._target.server_name if self._target.is_tls else None
        async with asyncio.timeout(self._plan.timeout):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self, is_head=self._target.is_head),
                self._target.host,
                self._target.port,
                ssl=self._tls,
                server_hostname=name,
            )
        self._connections.add(connection)
        return connection


class _PreciseSelector(selectors.DefaultSelector):
    """Waits as long as it is told. A selector's own wait is rounded up to a millisecond."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _precise_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_PreciseSelector())


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes a loop of uvloop, which does not run everywhere, else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
