"""``bare_hop.py PORT PREDICTOR_PORT``: the least that a hop can be with the usual libraries, for one question."""

from __future__ import annotations

import sys

import aiohttp
import uvicorn

URL = f"http://127.0.0.1:{sys.argv[2]}"
session: aiohttp.ClientSession | None = None


async def app(scope, receive, send):  # type: ignore[no-untyped-def]
    global session
    session = session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message.get("more_body", False)
    async with session.post(URL + scope["path"], data=body, headers={"content-type": "application/json"}) as found:
        answer, headers = await found.read(), [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": found.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, lifespan="off")
