"""``noop_server.py PORT``: our HTTP layer with a model that does nothing, in the project's own environment."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from data_plane.health import Event
from data_plane.messages import Response
from data_plane.model import Call, Models
from data_plane.model_server.life import Listeners, open_port
from data_plane.model_server.serving import serve
from data_plane.protocol.v1 import PredictRequest, encode_response
from data_plane.server.metrics import ServerMetrics


class Noop:
    name, version = "noop", "1.0"

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        return Response(encode_response([0] * request.size))


async def main(port: int) -> None:
    models = Models(["noop"])
    models.add(Noop())
    models.record("noop", Event.READY)
    with open_port("127.0.0.1", port) as listener:
        listeners = Listeners(
            listener=listener,
            host="127.0.0.1",
            grpc_port=0,
            max_request_size=1_000_000,
            request_timeout_s=60,
            grace_period_s=1,
        )
        await serve(listeners, models, ServerMetrics(), must_not_end=[asyncio.Future()])


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
