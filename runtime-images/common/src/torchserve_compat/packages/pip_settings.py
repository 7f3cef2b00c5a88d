"""pip's settings, of its variables and files, as arguments and variables of uv. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

_ARGUMENTS: Final = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
    "only-binary": "--only-binary",
    "no-binary": "--no-binary",
}
_SWITCHES: Final = {"no-index": "--no-index", "pre": "--prerelease=allow"}
_VARIABLES: Final = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "retries": "UV_HTTP_RETRIES",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}


def settings_of(listed: str) -> Mapping[str, str]:
    """Return the settings for an installation, by their names, from what `pip config list` prints."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}  # the last one wins
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found and value:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for section in found.values() for key, value in section.items()}


def as_uv(settings: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return uv's arguments and variables for pip's settings that concern an installation."""
    arguments = [
        word for key, flag in _ARGUMENTS.items() for one in settings.get(key, "").split() for word in (flag, one)
    ]
    arguments += [
        flag for key, flag in _SWITCHES.items() if settings.get(key, "").lower() in ("1", "true", "yes", "on")
    ]
    return arguments, {name: settings[key] for key, name in _VARIABLES.items() if settings.get(key)}
