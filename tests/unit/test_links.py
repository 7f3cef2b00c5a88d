"""Links between the pages of this repository lead to files and headings that exist."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()
)  # fmt: skip
CODE_BLOCK = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+\1")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?)$", re.MULTILINE)


def prose(text: str) -> str:
    return CODE_BLOCK.sub("", text)


def anchors(text: str) -> frozenset[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    counts: Counter[str] = Counter()
    found = set()
    for match in HEADING.finditer(prose(text)):
        name = slug(match[1])
        found.add(f"{name}-{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return frozenset(found)


def slug(heading: str) -> str:
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@cache
def anchors_of(page: Path) -> frozenset[str]:
    return anchors(page.read_text(encoding="utf-8"))


def dead_links(page: str) -> Iterator[str]:
    for match in LINK.finditer(CODE_SPAN.sub("", prose((ROOT / page).read_text(encoding="utf-8")))):
        target, _, anchor = unquote(match[1]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (ROOT / page).parent / target if target else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors_of(file.resolve())):
            yield match[1]


def test_links_lead_to_files_and_headings() -> None:
    assert {page: dead for page in PAGES if (dead := list(dead_links(page)))} == {}
