"""A bucket behind HTTP that this test answers for. Real stores, which check signatures, are in tests/e2e/stores."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores.proxy import Answer, Request, proxy

OBJECTS = {
    "bert/config.json": b"{}",
    "bert/weights/part 1.bin": bytes(range(256)) * 40,
    "bert/weights/empty": b"",
    "bertram/other.bin": b"another model",
}
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
MISSING = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
REFUSED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


def respond(request: Request) -> Answer:
    """As S3 does: pages of two keys, entity tags, ranges."""
    url = urlsplit(request.target)
    if "list-type" in url.query:
        return listed(parse_qs(url.query))
    content = OBJECTS.get(url.path.removeprefix("/models/").replace("%20", " "))
    if content is None:
        return Answer(404, MISSING)
    headers = {"ETag": etag(content), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if not asked:
        return Answer(200, content, headers)
    start, stop = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
    return Answer(206, content[start:stop], {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"})


def listed(query: dict[str, list[str]]) -> Answer:
    keys = [key for key in sorted(OBJECTS) if key.startswith(query.get("prefix", [""])[0])]
    start = int(query.get("continuation-token", ["0"])[0])
    page, rest = keys[start : start + 2], keys[start + 2 :]
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{start + 2}</NextContinuationToken>" if rest else ""
    entries = (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{escape(etag(OBJECTS[key]))}</ETag><Size>{len(OBJECTS[key])}</Size></Contents>"
        for key in page
    )
    return Answer(200, f"<ListBucketResult>{''.join(entries)}{more}</ListBucketResult>".encode())


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


def signed_by(request: Request) -> str:
    return "".join(re.findall(r"Credential=(\w+)/", request.headers.get("authorization", "")))


@pytest.mark.parametrize(("settings", "signer"), [(KEYS, "key"), ({"awsAnonymousCredential": "true"}, "")])
def test_the_objects_below_a_prefix_arrive_under_their_names(
    initialize: Initialize, tmp_path: Path, settings: dict[str, str], signer: str
) -> None:
    with proxy(None, respond) as server:
        outcome = initialize("s3://models/bert", tmp_path / "models", AWS_ENDPOINT_URL=server.url, **settings)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(tmp_path / "models") == {
        key.removeprefix("bert/"): content for key, content in OBJECTS.items() if key.startswith("bert/")
    }
    assert {signed_by(request) for request in server.requests} == {signer}


def test_who_was_refused_is_named(initialize: Initialize, tmp_path: Path) -> None:
    with proxy(None, lambda _: Answer(403, REFUSED)) as server:
        outcome = initialize("s3://models/bert", tmp_path / "models", AWS_ENDPOINT_URL=server.url, **KEYS)

    assert outcome.exit_code == 7
    assert "access key key" in outcome.reason
