"""The user's config.properties → the one TorchServe gets, and what was changed on the way. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import javaproperties

from data_plane.model_server.errors import ConfigurationError


@dataclass(frozen=True)
class Change:
    """One setting that TorchServe gets otherwise than the user wrote it."""

    setting: str
    was: str | None
    now: str
    why: str

    def __str__(self) -> str:
        was = "unset" if self.was is None else _shortened(self.was)
        return f"{self.setting}: {was} → {_shortened(self.now)} ({self.why})"


@dataclass
class Draft:
    """The configuration while the rules work on it: no setting changes without a reason."""

    properties: dict[str, str]
    changes: list[Change] = field(default_factory=list)

    def get(self, setting: str, default: str = "") -> str:
        """The value without blanks around it."""
        return self.properties.get(setting, default).strip()

    def is_true(self, setting: str) -> bool:
        """By Java's rule: in any case of letters."""
        return self.get(setting).lower() == "true"

    def set(self, setting: str, value: str, why: str) -> None:
        """Changes a setting and keeps the reason; nothing happens where it has that value already."""
        was = self.properties.get(setting)
        if was != value:
            self.properties[setting] = value
            self.changes.append(Change(setting, was, value, why))

    def set_default(self, setting: str, value: str, why: str) -> None:
        """The same, only where the setting is missing or empty."""
        if not self.get(setting):
            self.set(setting, value, why)


def parse(content: bytes, source: str) -> dict[str, str]:
    """Java's rules: continuation lines, escapes, ISO-8859-1, the last of equal keys wins."""
    try:
        return dict(javaproperties.load(io.BytesIO(content)))
    except ValueError as error:
        raise ConfigurationError(f"{source} is not a Java properties file: {error}.") from error


def dump(properties: Mapping[str, str]) -> bytes:
    """The same settings as a properties file."""
    text: str = javaproperties.dumps(properties, timestamp=False)
    return text.encode("latin-1")


def _shortened(value: str, limit: int = 120) -> str:
    return value if len(value) <= limit else f"{value[:limit]}…"
