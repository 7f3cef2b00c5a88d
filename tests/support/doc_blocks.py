"""The blocks of commands in the docs, each known by its page and how its first line begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.build_cache import ROOT

_BLOCK = re.compile(r"^ *```(?:sh|console|bash)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_PLACES = ("README.md", "docs/*.md", "docs/commands/*.md", "examples/**/README.md")
_KEY = 52  # characters of the first line
_TEMPLATES = "operator/src/isvc/commands/templates/**/README.md*"


@dataclass(frozen=True)
class Block:
    """A block of commands; ``number`` counts those of its page."""

    page: str
    number: int
    text: str

    @property
    def key(self) -> str:
        """What the table of docs' blocks knows it by."""
        page = self.page.removeprefix("operator/src/isvc/commands/")
        return f"{page}: {self.text.strip().splitlines()[0][:_KEY]}"


def blocks(root: Path = ROOT) -> Iterator[Block]:
    """Yield each block of each page, in order."""
    for page in sorted({path for place in (*_PLACES, _TEMPLATES) for path in root.glob(place)}):
        for number, text in enumerate(_BLOCK.findall(page.read_text())):
            yield Block(str(page.relative_to(root)), number, text)
