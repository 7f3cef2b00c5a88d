"""A sink for CloudEvents: `sink.py PORT STATUS DELAY_MS`. `GET /` responds with the number of events it has taken."""

from __future__ import annotations

import asyncio
import sys

import httptools
import uvloop


class Connection(asyncio.Protocol):
    """Responds to each event after the delay."""

    taken = 0
    status = 202
    delay_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._respond(200, str(Connection.taken).encode())
        elif self.delay_s:
            asyncio.get_running_loop().call_later(self.delay_s, self._take)
        else:
            self._take()

    def _take(self) -> None:
        Connection.taken += self.status < 300
        self._respond(self.status, b"")

    def _respond(self, status: int, body: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    Connection.status, Connection.delay_s = int(sys.argv[2]), int(sys.argv[3]) / 1000
    uvloop.run(serve(int(sys.argv[1])))
