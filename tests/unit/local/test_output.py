"""What a process of a run prints is passed on as lines that do not act, and within bounds."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from isvc.limits import OUTPUT_LINE_BYTES
from isvc.run.container import Process
from isvc.run.processes import lines_of, process_group
from isvc_operator.limits import LINE_BYTES, LOG_BYTES
from tests.support.local_services import Silent


async def printed(text: bytes) -> list[str]:
    stream = asyncio.StreamReader()
    stream.feed_data(text)
    stream.feed_eof()
    return [line async for line in lines_of(stream)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\n\ntwo", ["one", "", "two"]),
        (b"\x1b[31mred\x1b[0m\tback\x08\n", ["\\x1b[31mred\\x1b[0m\tback\\x08"]),
        ("left \u202eright\u2028next\n".encode(), ["left \\u202eright\\u2028next"]),
        (b"no utf-8: \xff\n", ["no utf-8: \ufffd"]),
        (b"50%\r100%\n", ["100%"]),
        (b"\r 50%|##  |\r100%|####|\r\n", ["100%|####|"]),
        (b"\r 50%|##  |\r         \rloaded\n", ["loaded"]),
    ],
)
async def test_a_line_is_text_that_does_not_act(text: bytes, lines: list[str]) -> None:
    assert await printed(text) == lines


async def test_a_long_line_is_yielded_in_parts() -> None:
    lines = await printed(b"x" * 10_000_000 + b"\nend\n")

    assert "".join(lines) == "x" * 10_000_000 + "end"
    assert max(map(len, lines)) <= 2 * OUTPUT_LINE_BYTES


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("open(FILE, 'w').write('a\\x1b\\nb' * 1_000_000)", "a\\x1b\n| ba\\x1b\n| b"),
        ("print('a\\x1bb' * 1_000_000)", "its last output:\n  a\\x1bba\\x1bb"),
    ],
    ids=["left", "printed"],
)
async def test_the_message_of_a_failed_process_is_limited(tmp_path: Path, script: str, words: str) -> None:
    log = tmp_path / "log"
    code = f"FILE = {str(log)!r}; {script}; exit(3)"
    async with process_group({}, Silent()) as group:
        process = Process("p", (sys.executable, "-c", code), {}, None, log)
        running = await group.start(process, list[str]().append)
        await running.exited

    text = str(running.failure())
    assert text.startswith("p failed (exit code 3)")
    assert words in text
    assert len(text.encode()) < max(LOG_BYTES, 10 * LINE_BYTES) + 100
