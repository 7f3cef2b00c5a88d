"""A web address and the environment to the request that is sent."""

from __future__ import annotations

import pytest

from storage_initializer.backends.http import HttpAccess, http_access, open_source
from storage_initializer.backends.redirects import redirected
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import UnexpectedResponseError, UsageError
from storage_initializer.plan import make_plan
from storage_initializer.uri import parse_uri


def test_the_headers_of_a_host_are_for_this_host() -> None:
    environment = {
        "files.example.com-headers": '{"Authorization": "Bearer t0ken", "X-Team": "ml"}',
        "other-headers": '{"X": "y"}',
        "AWS_CA_BUNDLE": "/ca.crt",
    }

    access = http_access(parse_uri("https://files.example.com:8443/a/model.mar"), environment)

    assert access == HttpAccess(
        url="https://files.example.com:8443/a/model.mar",
        origin="https://files.example.com:8443",
        headers={"Authorization": "Bearer t0ken", "X-Team": "ml"},
        trust=Trust(ca_file="/ca.crt", own=True),
    )
    assert str(access) == "with credentials for https://files.example.com:8443"
    assert "t0ken" not in repr(access)


def test_a_password_in_the_address_becomes_a_header() -> None:
    uri = parse_uri("https://user:p%40ss@host/model.mar?sig=abc")

    access = http_access(uri, {})

    assert (access.url, access.headers) == (
        "https://host/model.mar?sig=abc",
        {"Authorization": "Basic dXNlcjpwQHNz"},
    )
    assert uri.shown == "https://host/model.mar?…"


def test_addresses_that_differ_in_their_query_do_not_share_a_cache() -> None:
    plan = make_plan(["https://host/get?id=1", "/1", "https://host/get?id=2", "/2"], {})

    first, second = (open_source(transfer, plan).identity for transfer in plan.transfers)

    assert (first, second) == ("https://host/get?id=1", "https://host/get?id=2")


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("http://host", "http://host/"),
        ("http://host/a b/ü.mar", "http://host/a%20b/%C3%BC.mar"),
        ("http://host/a%20b.mar?x=%2F&y=a/b#part", "http://host/a%20b.mar?x=%2F&y=a/b"),
        ("http://host/50%.bin", "http://host/50%25.bin"),
        ("http://host/100%/%zz?q=%", "http://host/100%25/%25zz?q=%25"),
    ],
)
def test_an_address_is_quoted_where_it_has_to_be(uri: str, url: str) -> None:
    assert http_access(parse_uri(uri), {}).url == url


@pytest.mark.parametrize(
    ("uri", "environment", "message"),
    [
        (
            "https://host/model",
            {"host-headers": "Bearer s3cret"},
            "host-headers is not valid JSON (Expecting value: line 1 column 1 (char 0)); correct the secret",
        ),
        (
            "https://host/model",
            {"host-headers": '["s3cret"]'},
            "host-headers is not a JSON object of headers; correct the secret",
        ),
    ],
)
def test_what_makes_no_sense_is_explained_without_a_secret(uri: str, environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        http_access(parse_uri(uri), environment)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b/model.mar", "https://host/b/model.mar"),
        ("model.mar", "https://host/a/model.mar"),
        ("https://other/50%.mar", "https://other/50%25.mar"),
        ("//other/a b.mar?sig=%2F", "https://other/a%20b.mar?sig=%2F"),
        ("https://[::1]:8443/x", "https://[::1]:8443/x"),
    ],
)
def test_a_redirect_leads_on(location: str, target: str) -> None:
    assert redirected("https://host/a/b", location) == target


def test_a_redirect_from_http_to_https_leads_on() -> None:
    assert redirected("http://host/a", "https://host/a") == "https://host/a"


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://host/x", "https://[::1/x", "https://host:99999/x", "data:,x"]
)
def test_a_redirect_to_no_web_address_is_refused(location: str) -> None:
    with pytest.raises(UnexpectedResponseError, match="https://host redirects to nowhere"):
        redirected("https://host/a/b", location)


def test_a_redirect_from_https_to_http_is_refused_without_telling_what_is_in_the_address() -> None:
    with pytest.raises(UnexpectedResponseError) as raised:
        redirected("https://host/a", "http://other/model.mar?token=s3cret")

    assert str(raised.value) == (
        "https://host redirects to http://other, and anybody on that way could change the file; "
        "give an address that stays with https"
    )
