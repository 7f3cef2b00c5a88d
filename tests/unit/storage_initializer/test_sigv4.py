"""Signatures, against the examples that Amazon publishes for them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from storage_initializer.backends.sigv4 import Keys, canonical_query, sign

KEYS = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = datetime(2013, 5, 24, tzinfo=UTC)
HOST = "examplebucket.s3.amazonaws.com"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("target", "headers", "names", "signature"),
    [
        (
            "/test.txt",
            {"Range": "bytes=0-9"},
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "/?lifecycle=",
            {},
            "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "/?max-keys=2&prefix=J",
            {},
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_the_signature_is_amazons(target: str, headers: dict[str, str], names: str, signature: str) -> None:
    assert sign("GET", f"https://{HOST}{target}", headers, keys=KEYS, region="us-east-1", now=NOW) == {
        **{name.lower(): value for name, value in headers.items()},
        "host": HOST,
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}",
    }


def test_a_session_token_is_signed_with_the_rest() -> None:
    keys = Keys("AKIA", "secret", "token")

    headers = sign("GET", "https://host/key", {}, keys=keys, region="eu-west-1", now=NOW)

    assert headers["x-amz-security-token"] == "token"
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token," in headers["Authorization"]


def test_a_query_is_sorted_and_quoted_as_signatures_want_it() -> None:
    assert canonical_query({"prefix": "a b/ü~+", "list-type": "2"}) == "list-type=2&prefix=a%20b%2F%C3%BC~%2B"


def test_keys_do_not_show_their_secrets() -> None:
    assert repr(Keys("AKIA", "s3cret", "t0ken")) == "Keys(access_key='AKIA')"
