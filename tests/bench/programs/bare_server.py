"""``bare_server.py PORT WORK FOLDER``: the least that serves a model in batches; nothing is checked."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from pathlib import Path

import handling
import orjson
import uvicorn

waiting: queue.SimpleQueue = queue.SimpleQueue()


def run(handle: handling.Handle) -> None:
    while True:
        batch = [waiting.get()]
        while len(batch) < 32 and not waiting.empty():
            batch.append(waiting.get())
        predictions = handle([instance for instance, _ in batch])
        batch[0][1].get_loop().call_soon_threadsafe(answer, batch, predictions)


def answer(batch: list, predictions: list) -> None:
    for (_, future), prediction in zip(batch, predictions, strict=True):
        future.set_result(orjson.dumps({"predictions": [prediction]}))


async def app(scope, receive, send):  # type: ignore[no-untyped-def]
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message.get("more_body", False)
    future = asyncio.get_running_loop().create_future()
    waiting.put((orjson.loads(body)["instances"][0], future))
    answered = await future
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answered)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answered})


if __name__ == "__main__":
    threading.Thread(target=run, args=[handling.load(sys.argv[2], Path(sys.argv[3]))], daemon=True).start()
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, lifespan="off")
