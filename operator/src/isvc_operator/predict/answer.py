"""What a service answers, with the time that it took. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from isvc_operator.predict.payload import Protocol
from isvc_operator.text import one_line

_STAGE = re.compile(r"\s*([\w.-]{1,64})\s*;\s*dur=([0-9]{1,12}(?:\.[0-9]{1,9})?)")
_STAGES = 32


@dataclass(frozen=True)
class Answer:
    """An answer: ``milliseconds`` from the request to its end, of which the server names ``stages``."""

    url: str
    model: str
    protocol: Protocol
    status: int
    content_type: str
    body: bytes
    milliseconds: float
    stages: tuple[tuple[str, float], ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether it is a prediction."""
        return 200 <= self.status <= 299

    def value(self) -> Any:
        """Return the JSON of the body; its text if it is none, and None for bytes that are no text."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            pass
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            return None

    def problem(self) -> str:
        """Return what an answer that is no prediction says, as one line."""
        value = self.value()
        words = value.get("error") or value.get("message") if isinstance(value, dict) else value
        return one_line(str(words or "without a word"))

    def timing(self) -> str:
        """Return the time and its parts, as one line."""
        parts = [f"{name} {duration:.3f} ms" for name, duration in self._parts()]
        return f"{self.milliseconds:.1f} ms" + (f": {', '.join(parts)}" if parts else "")

    def as_data(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        return {
            "url": self.url,
            "model": self.model,
            "protocol": self.protocol.value,
            "status": self.status,
            "contentType": self.content_type,
            "answer": self.value(),
            "milliseconds": round(self.milliseconds, 3),
            "stages": [{"name": name, "milliseconds": round(duration, 3)} for name, duration in self._parts()],
        }

    def _parts(self) -> Iterator[tuple[str, float]]:
        """Yield the server's stages, and what is not in them as the network's."""
        yield from self.stages
        if self.stages:
            yield "network", max(0.0, self.milliseconds - sum(duration for _, duration in self.stages))


def stages_of(header: str) -> tuple[tuple[str, float], ...]:
    """Return the stages of a Server-Timing header in milliseconds; what is not written so is left out."""
    found = (_STAGE.match(part) for part in header.split(",")[:_STAGES])
    return tuple((match[1], float(match[2])) for match in found if match)
