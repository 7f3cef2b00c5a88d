"""The user's config.properties while rules change it, and the list of changes. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import javaproperties

from data_plane.model_server.errors import ConfigurationError

_SHOWN = 120  # characters of a value


@dataclass(frozen=True)
class SettingChange:
    """One setting that differs from what the user wrote."""

    setting: str
    was: str | None
    now: str
    why: str

    def __str__(self) -> str:
        was = "unset" if self.was is None else _shortened(self.was)
        return f"{self.setting}: {was} → {_shortened(self.now)} ({self.why})"


@dataclass
class Draft:
    """The configuration while rules change it; each change has a reason."""

    properties: dict[str, str]
    changes: list[SettingChange] = field(default_factory=list)

    def get(self, setting: str, default: str = "") -> str:
        return self.properties.get(setting, default).strip()

    def is_true(self, setting: str) -> bool:
        """Return whether the value is "true" in any case, as in Java."""
        return self.get(setting).lower() == "true"

    def set(self, setting: str, value: str, why: str) -> None:
        """Change a setting and record the reason, unless it already has that value."""
        was = self.properties.get(setting)
        if was != value:
            self.properties[setting] = value
            self.changes.append(SettingChange(setting, was, value, why))

    def set_default(self, setting: str, value: str, why: str) -> None:
        if not self.get(setting):
            self.set(setting, value, why)


def parse(content: bytes, source: str) -> dict[str, str]:
    """Parse a properties file by Java's rules: continuation lines, escapes, ISO-8859-1, the last duplicate wins.

    Blanks after a value are dropped. Java keeps them, so that TorchServe reads `true ` as false.
    """
    try:
        return {name: value.strip() for name, value in javaproperties.load(io.BytesIO(content)).items()}
    except ValueError as error:
        raise ConfigurationError(f"{source} is not a Java properties file: {error}.") from error


def dump(properties: Mapping[str, str]) -> bytes:
    text: str = javaproperties.dumps(properties, timestamp=False)
    return text.encode("latin-1")


def _shortened(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
