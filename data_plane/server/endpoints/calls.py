"""From a request to the Call that travels with it."""

from __future__ import annotations

import dataclasses
import time

from data_plane.messages import Request
from data_plane.model import Call


@dataclasses.dataclass(frozen=True, slots=True)
class Calls:
    """Makes calls; a request is answered within `timeout_s`, or with an error."""

    timeout_s: float

    def begin(self, request: Request) -> Call:
        """The call of a request that has just come in."""
        deadline = time.monotonic() + self.timeout_s
        return Call(request.headers, request.id, request.is_gone, deadline, self.timeout_s, request.timings)
