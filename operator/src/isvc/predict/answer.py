"""What a service answers, with the time that it took. Pure."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

from isvc.inference.protocol import InferenceProtocol
from isvc.inference.timing import parts_of
from isvc_operator.text import one_line


@dataclass(frozen=True)
class Answer:
    """An answer: ``milliseconds`` from the request to its end, of which the server names ``stages``."""

    url: str
    model: str
    protocol: InferenceProtocol
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
        """Return the JSON of the body; its text if it is none, and None for bytes that are not text.

        Numbers that JSON does not have, such as a model's NaN, are the texts "NaN", "Infinity" and "-Infinity".
        """
        try:
            return json.loads(self.body, parse_constant=str, parse_float=_number)
        except (ValueError, RecursionError):
            return self.text()

    def text(self) -> str | None:
        """Return the body as text; None for bytes that are none."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            return None

    def problem(self) -> str:
        """Return what an answer that is not a prediction says, as one line."""
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
            "answerBase64": base64.b64encode(self.body).decode() if self.text() is None else None,
            "milliseconds": round(self.milliseconds, 3),
            "stages": [
                {"name": name, "milliseconds": round(duration, 3)}
                for name, duration in parts_of(self.stages, self.milliseconds)
            ],
        }


def _number(text: str) -> float | str:
    """Return a number; one that is too large for a program's floats as the text that JSON's readers know."""
    number = float(text)
    return number if isfinite(number) else str(number).replace("inf", "Infinity")
