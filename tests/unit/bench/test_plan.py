"""What is sent to a URL, and which URLs are refused."""

from __future__ import annotations

import pytest

from isvc.bench.plan import AddressedRequest, target
from isvc_operator.errors import InvalidSpec


def test_a_request_without_a_body() -> None:
    assert target("https://models.example/v1/models", method="GET", headers={}, body=b"") == AddressedRequest(
        "models.example",
        443,
        True,
        "models.example",
        b"GET /v1/models HTTP/1.1\r\nHost: models.example\r\nUser-Agent: isvc-bench\r\nAccept: */*\r\n\r\n",
        url="https://models.example/v1/models",
    )


def test_headers_that_are_given_replace_those_that_are_sent_otherwise() -> None:
    headers = {"host": "bert.default.example.com", "Content-Type": "application/json"}

    sent = target("http://127.0.0.1:8080", method="POST", headers=headers, body=b"{}")

    assert (sent.host, sent.port, sent.is_tls) == ("127.0.0.1", 8080, False)
    assert sent.server_name == "bert.default.example.com"
    assert sent.message == (
        b"POST / HTTP/1.1\r\nUser-Agent: isvc-bench\r\nAccept: */*\r\nContent-Length: 2\r\n"
        b"host: bert.default.example.com\r\nContent-Type: application/json\r\n\r\n{}"
    )


def test_a_password_in_a_url_is_not_sent_as_its_host() -> None:
    assert b"Host: h:1\r\n" in target("http://user:secret@h:1/", method="GET", headers={}, body=b"").message


@pytest.mark.parametrize("url", ["", "models", "ftp://h/", "http://", "http:///x", "http://h:0/", "http://h:99999/",
                                 "http://h/a b", "http://h/\r\nX: 1", "http://h/ü", "http://[1/"])  # fmt: skip
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidSpec, match=r"is not a URL|has characters that a URL cannot have"):
        target(url, method="GET", headers={}, body=b"")


@pytest.mark.parametrize("header", [{"A\r\nB": "1"}, {"A": "1\r\nB: 2"}, {"": "1"}, {"A": "ü€"}])
def test_a_header_that_would_be_two_is_refused(header: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec, match="cannot be a header"):
        target("http://h/", method="GET", headers=header, body=b"")
