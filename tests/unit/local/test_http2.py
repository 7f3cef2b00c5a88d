"""A client of HTTP/2 is asked for another connection between two frames, wherever the bytes are cut."""

from __future__ import annotations

import pytest

from isvc.run.http2 import Answers

SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + bytes(6)
EMPTY = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00"
DATA = b"\x00\x01\x00\x00\x00\x00\x00\x00\x01" + b"x" * 256
GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"


@pytest.mark.parametrize("size", [1, 2, 5, 9, 15, 100, 1000])
@pytest.mark.parametrize("before", [0, 1, 9, 14, 15, 20, 24, 30, 100, 289])
def test_the_request_to_leave_comes_once_and_between_two_frames(size: int, before: int) -> None:
    answers, whole = Answers(), SETTINGS + EMPTY + DATA + EMPTY
    answers.is_http2 = True
    sent = b"".join(answers.passed_on(whole[start : start + 1]) for start in range(before))

    sent += answers.leave()
    sent += b"".join(answers.passed_on(whole[start : start + size]) for start in range(before, len(whole), size))

    assert sent.count(GOAWAY) == 1
    assert sent.replace(GOAWAY, b"") == whole
    ends = [len(SETTINGS), len(SETTINGS + EMPTY), len(SETTINGS + EMPTY + DATA), len(whole)]
    assert sent.index(GOAWAY) == next(end for end in ends if end >= before)


def test_what_is_not_http2_is_passed_on_as_it_is() -> None:
    answers = Answers()

    assert answers.passed_on(b"HTTP/1.1 200 OK\r\n") == b"HTTP/1.1 200 OK\r\n"
    assert answers.leave() == b""
    assert answers.passed_on(b"\r\n") == b"\r\n"
