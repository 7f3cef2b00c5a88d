"""How long a server waits for one client to do what it has to do next. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from data_plane.limits import HEAD_TIMEOUT, MIN_RATE, TRANSFER_TIMEOUT


class WaitsFor(enum.Enum):
    """What the client has to do next."""

    NOTHING = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    READING = enum.auto()  # of its answer


@dataclass(slots=True)
class ClientTimeout:
    """With one client, by one look a second."""

    waits_for: WaitsFor = WaitsFor.NOTHING
    unsent: int = 0  # bytes of answers that the client had not read when it was first waited for
    _subject: object = None
    _since: float = 0.0

    def ends(self, now: float, waits_for: WaitsFor, subject: object, *, received: int, unsent: int) -> bool:
        """Whether the client has been waited for in vain, as long as it may be, all the while for the same of the same
        `subject`: a head, a body of which so much is `received`, an answer of which so much is `unsent`."""
        if waits_for is not self.waits_for or subject is not self._subject:
            self.waits_for, self._subject, self._since, self.unsent = waits_for, subject, now, unsent
            return False
        return waits_for is not WaitsFor.NOTHING and now - self._since > self.allowed_s(received)

    def allowed_s(self, received: int) -> float:
        """In seconds; what is large may take longer, at a least rate."""
        if self.waits_for is WaitsFor.HEAD:
            return HEAD_TIMEOUT
        moved = received if self.waits_for is WaitsFor.BODY else self.unsent
        return TRANSFER_TIMEOUT + moved / MIN_RATE
