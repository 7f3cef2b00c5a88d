"""What is logged, and where it is sent: one environment variable with a JSON object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from data_plane.client.address import Address, BadAddress, split

VARIABLE: Final = "PAYLOAD_LOGGER"


class BadSettings(ValueError):
    """The variable has a value that cannot be used; the text says what to write."""


class Mode(Enum):
    ALL = "all"
    REQUEST = "request"
    RESPONSE = "response"


class LoggerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of a payload logger. Attributes of events that are empty are left out."""

    url: str
    mode: Mode = Mode.ALL
    inference_service: str = ""
    namespace: str = ""
    component: str = ""
    endpoint: str = "default"
    metadata_headers: tuple[str, ...] = ()  # of requests, sent with both events
    annotations: dict[str, str] = {}
    fraction: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0  # of requests
    ca_file: str | None = None  # certificates that the sink's is checked with; without it, the system's
    tls_skip_verify: bool = False

    @property
    def shown_url(self) -> str:
        """The address for messages: what comes after a ``?`` may be a token."""
        return self.url.partition("?")[0]


def settings_of(environment: Mapping[str, str]) -> LoggerSettings | None:
    """Return the settings in the environment, or None where nothing is logged; raises BadSettings."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        settings = msgspec.json.decode(text, type=LoggerSettings)
        _check(settings.url)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadSettings(
            f'The variable {VARIABLE} cannot be used: {error}; write a JSON object such as {{"url": "http://sink"}}, '
            "or remove it."
        ) from error
    return settings


def _check(url: str) -> None:
    """Raise ValueError for a URL to which nothing can be sent."""
    parts = urlsplit(url)
    if parts.username is not None:
        raise BadAddress("its url contains a user name, which would not be sent")
    if parts.scheme not in ("http", "https"):
        raise BadAddress(f"its url {url.partition('?')[0]!r} does not begin with http:// or https://")
    Address.parse(split(url)[0])
