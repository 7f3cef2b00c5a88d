"""The Call of a request: its headers, id and deadline, which the model receives."""

from __future__ import annotations

import dataclasses
import time

from data_plane.messages import Request
from data_plane.model import Call


@dataclasses.dataclass(frozen=True, slots=True)
class Calls:
    """Makes calls. A request that takes longer than `timeout_s` fails."""

    timeout_s: float

    def begin(self, request: Request) -> Call:
        """Return the call of a request that has just arrived."""
        deadline = time.monotonic() + self.timeout_s
        return Call(request.headers, request.id, request.is_gone, deadline, self.timeout_s, request.timings)
