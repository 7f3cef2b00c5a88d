"""The bounds of the ingress: sizes of heads, and what it quotes."""

from __future__ import annotations

import pytest

from tests.integration.local.ingress.ends import Ends, as_sent, echo_raw, status_of, talk


@pytest.mark.parametrize(
    "request_",
    [
        as_sent("GET /" + "x" * 10_000 + " HTTP/1.1"),
        as_sent("GET / HTTP/1.1", "X-Long: " + "x" * 10_000),
        as_sent("GET / HTTP/1.1", *(f"X-{number}: 1" for number in range(200))),
    ],
    ids=["line", "field", "fields"],
)
async def test_a_head_beyond_the_limits_is_refused(ends: Ends, request_: bytes) -> None:
    ends.handler = echo_raw

    assert status_of(await talk(ends, request_)) == 400


async def test_what_a_refusal_quotes_is_short(ends: Ends) -> None:
    async with ends.session.get(ends.url, headers={"Host": "x" * 5000}) as answer:
        assert answer.status == 404
        assert len(await answer.read()) < 400


async def test_what_a_refusal_quotes_is_text(ends: Ends) -> None:
    answer = await talk(ends, as_sent("GET / HTTP/1.1").replace(b"first", b"\xff\xe2\x80\xae"))

    assert status_of(answer) == 404
    assert answer.rpartition(b"\r\n")[2].isascii()
