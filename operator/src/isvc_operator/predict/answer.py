"""What a service answers, with the time that it took. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from isvc_operator.inference.timing import parts_of
from isvc_operator.predict.payload import Protocol
from isvc_operator.text import one_line


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
        parts = [f"{name} {duration:.3f} ms" for name, duration in parts_of(self.stages, self.milliseconds)]
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
            "stages": [
                {"name": name, "milliseconds": round(duration, 3)}
                for name, duration in parts_of(self.stages, self.milliseconds)
            ],
        }
