"""Patterns and checksums of the environment, applied to a listing."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from storage_initializer.errors import EmptySourceError, InitializerError, UsageError
from storage_initializer.selection import make_selection
from storage_initializer.sources import Checksum, SourceFile

PATHS = ("config/config.properties", "model-store/bert.mar", "model-store/old.mar", "README.md")
FILES = [SourceFile(PurePosixPath(path), 1) for path in PATHS]
DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, PATHS),
        ({"STORAGE_ALLOW_PATTERNS": "*.mar"}, PATHS[1:3]),
        ({"STORAGE_ALLOW_PATTERNS": '["*.mar", "config/*"]'}, PATHS[:3]),
        ({"STORAGE_IGNORE_PATTERNS": "*.md, */old.*"}, PATHS[:2]),
        ({"STORAGE_ALLOW_PATTERNS": "model-store/*", "STORAGE_IGNORE_PATTERNS": "*old*"}, PATHS[1:2]),
        ({"STORAGE_ALLOW_PATTERNS": '"*.mar"'}, PATHS[1:3]),
        ({"STORAGE_IGNORE_PATTERNS": ' "*.mar" '}, (PATHS[0], PATHS[3])),
        ({"STORAGE_ALLOW_PATTERNS": "[A-Z]*.md"}, PATHS[3:]),
        ({"STORAGE_ALLOW_PATTERNS": "[]"}, PATHS),
        ({"STORAGE_ALLOW_PATTERNS": "model-store/, README.md"}, PATHS[1:]),
        ({"STORAGE_IGNORE_PATTERNS": '["model-store/"]'}, (PATHS[0], PATHS[3])),
    ],
)
def test_patterns_choose_files(environment: dict[str, str], chosen: tuple[str, ...]) -> None:
    assert tuple(str(file.path) for file in make_selection(environment).of(FILES)) == chosen


@pytest.mark.parametrize("environment", [{"STORAGE_ALLOW_PATTERNS": "*.json"}, {"STORAGE_IGNORE_PATTERNS": "*.mar"}])
def test_what_the_uri_itself_names_comes_whatever_the_patterns_say(environment: dict[str, str]) -> None:
    named = [SourceFile(PurePosixPath("bert.mar"), 1, exact=True)]

    assert make_selection(environment).of(named) == named


def test_a_given_checksum_is_the_files() -> None:
    selection = make_selection({"STORAGE_SHA256": f'{{"README.md": "{DIGEST.upper()}"}}'})

    assert [file.checksum for file in selection.of(FILES)] == [None, None, None, Checksum("sha256", DIGEST)]


@pytest.mark.parametrize(
    ("environment", "error", "message"),
    [
        (
            {"STORAGE_ALLOW_PATTERNS": "*.onnx"},
            EmptySourceError,
            "STORAGE_ALLOW_PATTERNS and STORAGE_IGNORE_PATTERNS leave none of its 4 files; correct them",
        ),
        (
            {"STORAGE_SHA256": f'{{"readme.md": "{DIGEST}"}}'},
            UsageError,
            "STORAGE_SHA256 names readme.md, which is not brought; correct the path",
        ),
        (
            {"STORAGE_SHA256": '{"README.md": "abc"}'},
            UsageError,
            'STORAGE_SHA256 is {"README.md": "abc"}; write {"PATH": "64 hexadecimal digits"}',
        ),
        (
            {"STORAGE_ALLOW_PATTERNS": "[1]"},
            UsageError,
            "STORAGE_ALLOW_PATTERNS is [1]; write a JSON array of strings, or a list with commas",
        ),
        (
            {"STORAGE_ALLOW_PATTERNS": '{"a": 1}'},
            UsageError,
            'STORAGE_ALLOW_PATTERNS is {"a": 1}; write a JSON array of strings, or a list with commas',
        ),
        (
            {"STORAGE_ALLOW_PATTERNS": '"*.mar", "*.md"'},
            UsageError,
            "STORAGE_ALLOW_PATTERNS is not valid JSON (Extra data: line 1 column 8 (char 7)); correct it",
        ),
        (
            {"STORAGE_IGNORE_PATTERNS": "[*.md]"},
            UsageError,
            "STORAGE_IGNORE_PATTERNS is not valid JSON (Expecting value: line 1 column 2 (char 1)); correct it",
        ),
    ],
)
def test_what_cannot_be_is_explained(environment: dict[str, str], error: type[InitializerError], message: str) -> None:
    with pytest.raises(error) as raised:
        make_selection(environment).of(FILES)

    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["STORAGE_ALLOW_PATTERNS", "STORAGE_IGNORE_PATTERNS", "STORAGE_SHA256"])
def test_what_is_nested_too_deep_is_explained_as_other_text_that_is_not_json(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} is not valid JSON \(maximum recursion depth .*\); correct it$"):
        make_selection({name: '{"a":' * 100_000})
