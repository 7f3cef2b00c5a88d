"""The secrets among the settings: usable as they were stored, or refused by name, and in no text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote

from storage_initializer.errors import UsageError

# Variables that hold a secret; one that ends in _FILE names a file that does.
_SECRET = re.compile(
    r"(secret|token|password|passwd|access_key)(?!.*_FILE$)|-headers$|^STORAGE_(OVERRIDE_)?CONFIG$", re.I
)
# An identifier, which messages show.
_SHOWN = {"AWS_ACCESS_KEY_ID", "access_key_id in STORAGE_CONFIG", "access_key_id in STORAGE_OVERRIDE_CONFIG"}
_JSON = re.compile(r"-headers$|^STORAGE_(OVERRIDE_)?CONFIG$")
# A URL's password: "/" and space are not allowed in one, and written nevertheless.
_PASSWORD = re.compile(r"//[^\s/:@]*:([^@]+)@")
_SHORTEST = 4  # characters of what is taken out of texts: shorter ones are parts of many words
_HIDDEN = "***"


def stored(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the space and line ends around them, which `echo KEY | base64` stores with a key.

    Raise UsageError for a secret with a line end or another control character within, which no request can
    carry.
    """
    settings = {name: value.strip() for name, value in environment.items()}
    for name, value in _secrets(settings):
        if not value.isprintable():
            raise UsageError(
                f"{name} has a line end or another character that cannot be sent; store it again as it was issued"
            )
    return settings


def hiding(environment: Mapping[str, str], *arguments: str) -> Callable[[str], str]:
    """Return a function that takes every secret out of a text, in whichever of the usual forms it stands there.

    ``arguments`` are those of the command: a URI may have a password as well.
    """
    whole = [value for name, value in environment.items() if _JSON.search(name)]
    secrets = [value for name, value in _secrets(environment) if name not in _SHOWN]
    in_objects = [text for name, value in environment.items() for _, text in _fields(name, value)]
    texts = (*environment.values(), *in_objects, *arguments)
    passwords = [word for text in texts for found in _PASSWORD.finditer(text) for word in found[1].split()]
    parts = {part for value in (*secrets, *whole, *passwords) for part in _parts(value)}
    if not parts:
        return str
    pattern = re.compile("|".join(re.escape(part) for part in sorted(parts, key=len, reverse=True)))
    return lambda text: pattern.sub(_HIDDEN, text)


def _secrets(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each secret with the name that its owner knows it by; those in a JSON object one by one."""
    for name, value in environment.items():
        if not _SECRET.search(name):
            continue
        if not _JSON.search(name):
            yield name, value
        elif name.endswith("-headers"):
            yield from ((name, text) for _, text in _fields(name, value))
        else:
            yield from ((f"{key} in {name}", text) for key, text in _fields(name, value) if _SECRET.search(key))


def _fields(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield keys and texts of a variable that holds a JSON object; whoever uses another one refuses it."""
    if not _JSON.search(name):
        return
    try:
        document = json.loads(value or "{}")
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict):
        yield from ((key, text.strip()) for key, text in document.items() if isinstance(text, str))


def _parts(value: str) -> Iterator[str]:
    """Yield what a text may show of a value: its lines, as they are, as Python quotes them, and as URLs do."""
    for line in value.splitlines():
        for form in (line.strip(), line.strip().encode("unicode_escape").decode(), quote(line.strip())):
            if len(form) >= _SHORTEST:
                yield form
