"""What of an earlier run, or of an earlier attempt, is not brought again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from storage_initializer.download import PART_BYTES
from storage_initializer.errors import ServerError
from storage_initializer.retry import Retry
from storage_initializer.sources import Content, SourceFile
from storage_initializer.transfer import STAGING
from tests.support.memory_source import MemorySource, bring_alone
from tests.support.model_folder import read_tree

FILES = {"weights": random.Random(0).randbytes(2 * PART_BYTES + 5), "config": b"{}"}


class Asked:
    """Of each part, and answered unless it is ``broken``."""

    def __init__(self, *broken: tuple[str, int]) -> None:
        self.parts: list[tuple[str, int, int]] = []
        self._broken = broken

    def __call__(self, path: str, start: int, stop: int) -> None:
        self.parts.append((path, start, stop))
        if (path, start) in self._broken:
            raise ServerError("it broke; try again")


def test_after_a_failure_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    """Which parts had arrived is a matter of chance; none of them is asked for twice, and none is forgotten."""
    first, second = Asked(("weights", PART_BYTES)), Asked()
    with pytest.raises(ServerError):
        bring_alone(MemorySource(FILES, on_open=first), tmp_path / "models")
    arrived = (tmp_path / "models" / STAGING / "arriving.journal").read_bytes().count(b" ")

    bring_alone(MemorySource(FILES, on_open=second), tmp_path / "models")

    assert len(second.parts) == 4 - arrived
    assert ("weights", PART_BYTES, 2 * PART_BYTES) in second.parts
    assert read_tree(tmp_path / "models") == FILES


def test_a_source_that_has_changed_is_brought_anew(tmp_path: Path) -> None:
    with pytest.raises(ServerError):
        bring_alone(MemorySource(FILES, on_open=Asked(("weights", PART_BYTES))), tmp_path / "models")
    changed = {path: bytes(reversed(content)) for path, content in FILES.items()}
    asked = Asked()

    bring_alone(MemorySource(changed, version="2", on_open=asked), tmp_path / "models")

    assert len(asked.parts) == 4
    assert read_tree(tmp_path / "models") == changed


def test_an_attempt_goes_on_where_the_one_before_broke_off(tmp_path: Path) -> None:
    """The source gives a hundred bytes more each time."""
    asked: list[tuple[str, int, int]] = []
    content = bytes(range(256))

    class Stingy(MemorySource):
        @contextmanager
        def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
            asked.append((str(file.path), start, stop))
            yield BytesIO(content[start : min(start + 100, stop)])

    bring_alone(Stingy({"weights": content}), tmp_path / "models", Retry(3, lambda: 0.0, lambda seconds: None))

    assert asked == [("weights", 0, 256), ("weights", 100, 256), ("weights", 200, 256)]
    assert read_tree(tmp_path / "models") == {"weights": content}
