"""Names of Kubernetes objects on the command line. Another text is refused before it becomes a part of a URL."""

from __future__ import annotations

import re
from typing import Final

import click

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABELS: Final = re.compile(_LABEL)
_IP_ADDRESS: Final = re.compile(r"\d+(\.\d+){3}")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_label(text: str) -> bool:
    """Whether a text can name a namespace or a service."""
    return len(text) <= 63 and _LABELS.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether a text can name an object of most kinds."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


class Namespace(click.ParamType[str]):
    """The name of a namespace; with ``several``, some with commas between them."""

    name = "name"

    def __init__(self, *, several: bool = False) -> None:
        self._several = several

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; fails for any other text."""
        text = str(value)
        for name in text.split(",") if self._several else [text]:
            if not is_label(name):
                self.fail(f"{name!r} cannot be the name of a namespace: {_RULE}", param, ctx)
        return text


def is_url(text: str) -> bool:
    """Whether a text is meant as the URL of a server, rather than as a name; its scheme may be left out."""
    return (":" in text or "/" in text or _IP_ADDRESS.fullmatch(text) is not None) and not text.startswith(".")


class ServiceName(click.ParamType[str]):
    """The name of an InferenceService; with ``or_url``, also a URL."""

    name = "name"

    def __init__(self, *, or_url: bool = False) -> None:
        self._or_url = or_url

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; fails for any other text."""
        text = str(value)
        if not (is_name(text) or (self._or_url and is_url(text))):
            self.fail(self._mistake(text, ctx), param, ctx)
        return text

    def _mistake(self, text: str, ctx: click.Context | None) -> str:
        if is_url(text) and ctx and any(option.name == "url" for option in ctx.command.params):
            return f"a URL is given by a flag; write isvc {ctx.info_name} NAME --url http://HOST[:PORT]."
        return f"{text!r} cannot be the name of a service: {_RULE}"


_RULE: Final = "names have lower-case letters, digits and '-'."
