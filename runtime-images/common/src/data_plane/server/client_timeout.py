"""How long the server waits for a client's next step. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from data_plane.limits import HEAD_TIMEOUT, MIN_RATE, TRANSFER_TIMEOUT


class WaitsFor(enum.Enum):
    """What the client has to do next."""

    NOTHING = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    READING = enum.auto()  # of its response


@dataclass(slots=True)
class ClientTimeout:
    """The timeout of one client, which is checked once a second."""

    waits_for: WaitsFor = WaitsFor.NOTHING
    unsent: int = 0  # bytes of responses that the client had not read when the wait began
    _subject: object = None
    _since: float = 0.0

    def expired(self, now: float, waits_for: WaitsFor, subject: object, *, received: int, unsent: int) -> bool:
        """Return whether the wait for the same step of the same `subject` has taken too long.

        `received` is the size of the body so far, `unsent` of the response that the client has not read.
        """
        if waits_for is not self.waits_for or subject is not self._subject:
            self.waits_for, self._subject, self._since, self.unsent = waits_for, subject, now, unsent
            return False
        return waits_for is not WaitsFor.NOTHING and now - self._since > self.allowed_s(received)

    def allowed_s(self, received: int) -> float:
        """Return the seconds that the step may take: more for a larger body or response, by the minimum rate."""
        if self.waits_for is WaitsFor.HEAD:
            return HEAD_TIMEOUT
        moved = received if self.waits_for is WaitsFor.BODY else self.unsent
        return TRANSFER_TIMEOUT + moved / MIN_RATE
