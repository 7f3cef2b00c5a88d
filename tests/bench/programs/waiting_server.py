"""``waiting_server.py PORT``: its responses take 20 ms, and each tenth one 100 ms, whatever else happens."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

import uvloop

_SHORT_S, _LONG_S = 0.02, 0.1
_BODY = json.dumps({"predictions": [0]}).encode()
_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
_NUMBERS = itertools.count(1)


class Waiting(asyncio.Protocol):
    """Takes each piece that arrives for a whole request: they are small, and come one at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        seconds = _LONG_S if next(_NUMBERS) % 10 == 0 else _SHORT_S
        asyncio.get_running_loop().call_later(seconds, self._respond)

    def _respond(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_RESPONSE)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Waiting, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
