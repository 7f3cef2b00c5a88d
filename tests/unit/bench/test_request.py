"""What is sent to a URL, and which URLs are refused."""

from __future__ import annotations

import re

import pytest

from isvc.bench.load import load_request
from isvc.predict.errors import UnusableRequest


@pytest.mark.parametrize("url", ["ftp://h/", "http://", "http://h:0/", "http://h:99999/", "http://h/a b",
                                 "http://h/\r\nX: 1", "http://[1/"])  # fmt: skip
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UnusableRequest, match=r"is not a URL of a server"):
        load_request(url, method="GET", headers={}, body=b"")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("h:80/x", "http://h:80/x"), ("//h", "http://h"), ("http:/h", "http://h"), ("HTTPS:h", "https://h"),
        ("https//h/x", "https://h/x"), ("http;//h", "http://h"), ("http:\\\\h", "http://h"), ("http:///x", "http://x"),
        ("http://https://h", "https://h"), ("http:/user:secret@h", "http://h"),
        ("", "http://HOST[:PORT]/PATH, or https://…"), ("http:/", "http://HOST[:PORT]/PATH, or https://…"),
        ("//[1", "http://HOST[:PORT]/PATH, or https://…"),
    ],
)  # fmt: skip
def test_a_url_with_a_miswritten_scheme_is_told_as_it_is_meant(text: str, meant: str) -> None:
    with pytest.raises(UnusableRequest, match=rf"^a URL begins with .*; write {re.escape(meant)}$"):
        load_request(text, method="GET", headers={}, body=b"")


@pytest.mark.parametrize("header", [{"A\r\nB": "1"}, {"A": "1\r\nB: 2"}, {"": "1"}, {"A": "ü€"}])
def test_a_header_that_would_be_two_is_refused(header: dict[str, str]) -> None:
    with pytest.raises(UnusableRequest, match="cannot be a header"):
        load_request("http://h/", method="GET", headers=header, body=b"")
