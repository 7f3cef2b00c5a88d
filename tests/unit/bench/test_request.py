"""What is sent to a URL, and which URLs are refused."""

from __future__ import annotations

import pytest

from isvc.bench.load import load_request
from isvc.predict.errors import UnusableRequest


@pytest.mark.parametrize("url", ["ftp://h/", "http://", "http://h:0/", "http://h:99999/", "http://h/a b", "//[1",
                                 "", "http://h/\r\nX: 1", "http://[1/", "//h", "http:/h", "HTTPS:h",
                                 "https//h/x"])  # fmt: skip
def test_what_is_not_the_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UnusableRequest, match=r"is not the URL of a server; write http://HOST\[:PORT]/PATH, or https"):
        load_request(url, {}, (), None)


def test_a_scheme_can_be_left_out() -> None:
    assert load_request("h:80/x", {}, (), None).url == "http://h:80/x"


@pytest.mark.parametrize("header", ["A\r\nB: 1", "A: 1\r\nB: 2", ": 1", "A: ü€"])
def test_a_header_that_would_be_two_is_refused(header: str) -> None:
    with pytest.raises(UnusableRequest, match="cannot be a header"):
        load_request("http://h/", {}, (header,), None)
