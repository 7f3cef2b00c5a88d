"""Sends a response whose body comes in one message in one write, unless it is large; uvicorn sends everything else.

On asyncio's loop a second write is a second system call, a tenth of what a small request costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent

_COPIED = 64 * 1024  # bytes of a body that are copied behind their head; more is cheaper to hand over as it is


class Cycle(RequestResponseCycle):
    """One request and its response. A head that states a length waits for the first part of its body."""

    _head: HTTPResponseStartEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of ASGI; raises RuntimeError for a header that HTTP cannot carry."""
        if message["type"] == "http.response.start" and _states_length(message):
            self._head = message
        elif self._head is not None and message["type"] == "http.response.body":
            head, self._head = self._head, None
            if message.get("more_body", False):
                await super().send(head)
                await super().send(message)
                return
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if not self.disconnected:
                self._send_whole(head, message.get("body", b""))
        else:
            await super().send(message)

    def _send_whole(self, head: HTTPResponseStartEvent, body: bytes) -> None:
        lines = self._head_lines(head)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        if self.scope["method"] == "HEAD":
            body = b""
        if len(body) <= _COPIED:
            lines.append(body)
            self.transport.write(b"".join(lines))
        else:
            # Not writelines: asyncio copies there up to Python 3.11, and never pauses a writer in 3.12.0 to 3.12.8 and
            # in 3.13.0 and 3.13.1 (CVE-2024-12254).
            self.transport.write(b"".join(lines))
            self.transport.write(body)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _head_lines(self, head: HTTPResponseStartEvent) -> list[bytes]:
        headers = (*self.default_headers, *head["headers"])
        _check(headers)
        lines = [STATUS_LINE[head["status"]]]
        for name, value in headers:
            if name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            else:
                lines += (name, b": ", value, b"\r\n")
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return lines


def _check(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Both expressions look for one byte, so one search in all names, and one in all values, finds what each would."""
    names, values = zip(*headers, strict=True)
    if HEADER_RE.search(b"".join(names)) or HEADER_VALUE_RE.search(b"".join(values)):
        broken = next(name for name, value in headers if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value))
        raise RuntimeError(f"The response's header {broken!r} is not one that HTTP can carry.")


def _states_length(head: HTTPResponseStartEvent) -> bool:
    for name, _ in head["headers"]:  # noqa: SIM110 - the response to every request: any() makes a generator
        if name == b"content-length":
            return True
    return False
