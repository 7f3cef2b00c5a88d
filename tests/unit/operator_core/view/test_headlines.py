"""What is said of a message of several lines where there is room for one."""

from __future__ import annotations

import pytest

from isvc.view.headlines import brief, headline, missing_module


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no file", "no file"),
        ("there are two:\n  a\n  b", "there are two: a"),
        ("", ""),
        ("Traceback (most recent call last):\n  File", "Traceback (most recent call last): File"),
        ("Traceback (most recent call last)\nKeyError: 'a'\nLast log lines:", "KeyError: 'a'"),
        ("it starts\n| Traceback (most recent call last)\n|   File\n| KeyError: 'a'", "KeyError: 'a'"),
        ('oad()\n  File "/a.py", line 1, in <module>\n    b\nKeyError: 1', "KeyError: 1"),
        ('  File "/a/m.py", line 5\n    x = (\n        ^\nSyntaxError: it ends', "SyntaxError: it ends (m.py, line 5)"),
    ],
    ids=["one", "several", "none", "cut", "raised", "of a status", "without its beginning", "syntax"],
)
def test_the_line_that_matters_is_said(text: str, line: str) -> None:
    assert headline(text) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pod a-1, container kserve-container exited with code 1: no file", "exited with code 1: no file"),
        ("pod a-1: the server is starting", "the server is starting"),
        ("podium: 1", "podium: 1"),
    ],
)
def test_what_happens_is_said_without_the_names_of_pods(text: str, shown: str) -> None:
    assert brief(text) == shown


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("ModuleNotFoundError: No module named 'a.b'", "a.b"),
        ("/opt/bin/python3.11: No module named nothere", "nothere"),
        (
            "/opt/bin/python: Error while finding module specification for 'a.b' "
            "(ModuleNotFoundError: No module named 'a')",
            "a",
        ),
        ("Model m could not be loaded: ModuleNotFoundError: No module named 'a'", ""),
        ("WARNING plugin: No module named 'a'", ""),
    ],
    ids=["imported", "run", "run of a package", "in a message with its fix", "a warning"],
)
def test_the_module_that_python_has_not_found_is_named(line: str, module: str) -> None:
    assert missing_module(line) == module
