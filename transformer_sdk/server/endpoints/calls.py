"""From a request to the Call that travels with it, and back: deadlines and the Server-Timing header."""

from __future__ import annotations

import dataclasses
import time

from transformer_sdk.messages import Request, Response
from transformer_sdk.model import Call

# A client that sends this header gets `Server-Timing` back.
ASK_FOR_TIMING = b"x-server-timing"


@dataclasses.dataclass(frozen=True, slots=True)
class Calls:
    """Makes calls; a request is answered within `timeout_s`, or with an error."""

    timeout_s: float

    def begin(self, request: Request) -> Call:
        """The call of a request that has just come in."""
        return Call(request.headers, request.id, request.is_gone, time.monotonic() + self.timeout_s)

    def finish(self, request: Request, call: Call, response: Response) -> Response:
        """The response, with the times of its stages where the client asked for them."""
        if request.header(ASK_FOR_TIMING) is None:
            return response
        stages = ", ".join(f"{stage};dur={seconds * 1000:.3f}" for stage, seconds in call.timings.items())
        return dataclasses.replace(response, headers=(*response.headers, (b"server-timing", stages.encode())))
