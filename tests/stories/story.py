"""What a story of a user is: the files that people have, and the commands that they type."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import yaml

from tests.support.cluster import Answer, curl

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
_SHOWN = 300  # characters


@dataclass(frozen=True)
class Place:
    """Where a service is reached: ``url`` is the ingress, which goes by ``host``.

    ``https_port`` is where the ingress goes by the name in TLS, and ``management`` TorchServe's management API; each is
    None where there is none.
    """

    host: str
    url: str
    https_port: int | None = None
    management: str | None = None


@dataclass(frozen=True)
class Ask:
    """A command with curl as people type it, and the JSON or the words of its answer.

    The command has the place's `$URL`, `$HOST`, `$HTTPS_PORT` and `$MANAGEMENT`. Where neither is given, as for
    numbers, the answer is only compared with that of another place.
    """

    command: str
    answer: Any = None
    words: str = ""

    def is_possible(self, place: Place) -> bool:
        """Whether the place has what the command names."""
        return all(name in _variables(place) for name in Template(self.command).get_identifiers())

    def ask(self, place: Place, folder: Path) -> Answer:
        """Type it in ``folder``."""
        program, *arguments = shlex.split(self.typed(place))
        assert program == "curl"
        return curl(*arguments, cwd=folder)

    def typed(self, place: Place) -> str:
        return Template(self.command).substitute(_variables(place))

    def is_answered(self, answer: Answer) -> bool:
        """Whether the answer is the expected one."""
        if answer.status != 200 or self.words not in answer.text:
            return False
        return self.answer is None or answer.json == self.answer

    def shown(self, answer: Answer) -> str:
        """Its text in one line, shortened; where words are expected, the line that has them."""
        lines = [line for line in answer.text.splitlines() if self.words and self.words in line]
        text = " ".join((lines[0] if lines else answer.text).split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _variables(place: Place) -> Mapping[str, str]:
    known = {"URL": place.url, "HOST": place.host, "HTTPS_PORT": place.https_port, "MANAGEMENT": place.management}
    return {name: str(value) for name, value in known.items() if value is not None}


@dataclass(frozen=True)
class Service:
    """A file that people apply, and what they ask its service."""

    title: str
    file: Path
    asks: tuple[Ask, ...]

    @property
    def name(self) -> str:
        body: Mapping[str, Any] = yaml.safe_load(self.file.read_text())
        name: str = body["metadata"]["name"]
        return name


@dataclass(frozen=True)
class Bucket:
    """A folder of a bucket of Google Cloud Storage, and what is in it."""

    name: str
    path: str
    content: Callable[[], Path]


@dataclass(frozen=True, eq=False)
class Story:
    """``claims`` are volumes and what is in them, ``folder`` is where people type the commands.

    ``images`` are those that people build, each with the program in it.
    """

    number: str
    services: tuple[Service, ...]
    folder: Callable[[], Path]
    claims: Mapping[str, Callable[[], Path]] = field(default_factory=dict)
    bucket: Bucket | None = None
    images: Mapping[str, Path] = field(default_factory=dict)
