"""A record of the log is one line, whatever a client has sent."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from data_plane.limits import MAX_LOG_TEXT
from data_plane.log_lines import IndentingFormatter, OneLineFormatter, one_line

FORGED = "GET /a\n2026-01-01 INFO all is well"


def written(formatter: logging.Formatter, message: str, error: BaseException | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.handle(
        logging.LogRecord("a", logging.ERROR, "", 0, "%s", (message,), (type(error), error, None) if error else None)
    )
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET /v1/models/a b:predict", "GET /v1/models/a b:predict"),
        ("añ\tb 模型", "añ\tb 模型"),
        (FORGED, r"GET /a\n2026-01-01 INFO all is well"),
        ("a\r\x1b[2Jb\x00\x7f\x9b", r"a\r\x1b[2Jb\x00\x7f\x9b"),
        ("a\u202egnp.exe\u2066", r"a\u202egnp.exe\u2066"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("half of a pair \ud800", r"half of a pair \ud800"),
        (r"already\nescaped", r"already\nescaped"),
    ],
)
def test_what_is_not_for_printing_is_written_as_an_escape(text: str, expected: str) -> None:
    assert one_line(text) == expected
    assert one_line(expected) == expected


def test_a_servers_message_is_one_line() -> None:
    assert written(OneLineFormatter("%(levelname)s %(message)s"), FORGED) == (
        "ERROR GET /a\\n2026-01-01 INFO all is well\n"
    )


def test_no_line_of_an_error_can_pass_for_a_record() -> None:
    assert written(OneLineFormatter("%(levelname)s %(message)s"), "it failed", ValueError(FORGED + "\x1b[2J")) == (
        "ERROR it failed\n    ValueError: GET /a\n    2026-01-01 INFO all is well\\x1b[2J\n"
    )


def test_a_handlers_message_keeps_its_lines_and_they_are_indented() -> None:
    assert written(IndentingFormatter("%(levelname)s %(message)s"), FORGED + "\x1b[2J") == (
        "ERROR GET /a\n    2026-01-01 INFO all is well\\x1b[2J\n"
    )


USERS = """
def initialize():
    return load()

def load():
    try:
        return {}["labels"]
    except KeyError as error:
        raise ValueError("no labels in FOLDER/labels.json") from error
"""


def raised_in(folder: Path) -> BaseException:
    """An error of a handler in a folder, as our code gets it."""
    file = folder / "handler.py"
    file.write_text(USERS.replace("FOLDER", str(folder)))
    ours: dict[str, Any] = {"__name__": "mar_runtime.worker.handler"}
    exec("def load(initialize):\n    initialize()", ours)
    users: dict[str, Any] = {"__name__": "handler"}
    exec(compile(file.read_text(), str(file), "exec"), users)
    with pytest.raises(ValueError, match="no labels") as raised:
        ours["load"](users["initialize"])
    return raised.value.with_traceback(raised.tb.tb_next)


FROM_THE_USERS_LINE = """it failed in handler.py
    Traceback (most recent call last):
      File "handler.py", line 7, in load
        return {}["labels"]
               ~~^^^^^^^^^^
    KeyError: 'labels'
    
    The above exception was the direct cause of the following exception:
    
    Traceback (most recent call last):
      File "handler.py", line 3, in initialize
        return load()
               ^^^^^^
      File "handler.py", line 9, in load
        raise ValueError("no labels in labels.json") from error
    ValueError: no labels in labels.json
"""  # noqa: W293


@pytest.mark.parametrize("is_known", [True, False], ids=["its folder is known", "its folder is not known"])
def test_a_traceback_begins_where_the_users_code_does(tmp_path: Path, is_known: bool) -> None:
    formatter = IndentingFormatter("%(message)s", folder=str(tmp_path) if is_known else "")

    found = written(formatter, f"it failed in {tmp_path}/handler.py", raised_in(tmp_path))

    assert (found if is_known else found.replace(f"{tmp_path}/", "")) == FROM_THE_USERS_LINE


def test_a_traceback_of_a_hook_has_nothing_of_the_thread_in_which_it_runs(tmp_path: Path) -> None:
    ours: dict[str, Any] = {"__name__": "transformer_sdk.kserve.serving.threads"}
    exec("def run(hook):\n    hook()", ours)
    users: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def preprocess():\n    {}['x']", str(tmp_path / "model.py"), "exec"), users)
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(ours["run"], users["preprocess"]).exception()

    found = written(IndentingFormatter("%(message)s"), "it failed", error)

    assert found.splitlines()[1:3] == [
        "    Traceback (most recent call last):",
        f'      File "{tmp_path}/model.py", line 2, in preprocess',
    ]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"broken_one": "import os\n\ndef handle(data, context:\n"},
            """it failed
      File "broken_one.py", line 3
        def handle(data, context:
                  ^
    SyntaxError: '(' was never closed
""",
        ),
        (
            {"broken_two": "import broken_three", "broken_three": "import not_there_at_all"},
            """it failed
    Traceback (most recent call last):
      File "broken_two.py", line 1, in <module>
        import broken_three
      File "broken_three.py", line 1, in <module>
        import not_there_at_all
    ModuleNotFoundError: No module named 'not_there_at_all'
""",
        ),
        ({}, "it failed\n    ModuleNotFoundError: No module named 'broken_none'\n"),
    ],
    ids=["syntax", "import", "no file"],
)
def test_a_traceback_has_nothing_of_the_import_of_the_users_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content)
    ours: dict[str, Any] = {"__name__": "mar_runtime.worker.handler"}
    exec("import importlib\ndef load(name):\n    importlib.import_module(name)", ours)

    with pytest.raises((SyntaxError, ImportError)) as raised:
        ours["load"](next(iter(files), "broken_none"))
    error = raised.value.with_traceback(raised.tb.tb_next)

    assert written(IndentingFormatter("%(message)s", folder=str(tmp_path)), "it failed", error) == expected


def test_a_traceback_is_whole_where_debug_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="data_plane")

    found = written(IndentingFormatter("%(message)s", folder=str(tmp_path)), "it failed", raised_in(tmp_path))

    assert found.count('File "<string>", line 2, in load') == 1


def test_a_record_of_any_length_is_cut() -> None:
    found = written(OneLineFormatter("%(message)s"), "\n" * 1_000_000, ValueError("\n" * 1_000_000))

    message, *traceback = found.split("\n")
    assert message == "\\n" * MAX_LOG_TEXT + "… (1000000 characters)"
    assert MAX_LOG_TEXT - 100 < len(traceback) <= MAX_LOG_TEXT + 1
