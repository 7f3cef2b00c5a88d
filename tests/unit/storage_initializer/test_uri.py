"""What a storage URI says."""

from __future__ import annotations

import pytest

from storage_initializer.errors import UsageError
from storage_initializer.uri import Uri, parse_uri


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pvc://leeway", Uri("pvc://leeway", "pvc", "leeway", "")),
        ("pvc://leeway/", Uri("pvc://leeway/", "pvc", "leeway", "")),
        ("pvc://leeway/sub/path", Uri("pvc://leeway/sub/path", "pvc", "leeway", "sub/path")),
        ("PVC://leeway", Uri("PVC://leeway", "pvc", "leeway", "")),
        ("file:///models/bert", Uri("file:///models/bert", "file", "", "/models/bert")),
        ("file://host/models", Uri("file://host/models", "file", "host", "/models")),
        ("/models/bert", Uri("/models/bert", "file", "", "/models/bert")),
        ("models/bert", Uri("models/bert", "file", "", "models/bert")),
        ("s3://bucket/a/b", Uri("s3://bucket/a/b", "s3", "bucket", "a/b")),
        ("oci+fetch://registry/name", Uri("oci+fetch://registry/name", "oci+fetch", "registry", "name")),
    ],
)
def test_a_uri_is_taken_apart(text: str, expected: Uri) -> None:
    assert parse_uri(text) == expected


@pytest.mark.parametrize("name", ["50%.mar", "a%20b.mar", "a#b.mar", "a?b.mar", "Modell für später.mar", "a\nb.mar"])
def test_file_names_are_taken_literally(name: str) -> None:
    assert parse_uri(f"pvc://leeway/{name}").path == name


@pytest.mark.parametrize("text", ["", "a\0b", "pvc://a\0b"])
def test_what_cannot_be_a_path_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_uri(text)

    assert str(raised.value) == f"the source {text!r} is not a URI or path; write pvc://CLAIM/PATH or a path"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@host/m.mar?sig=secret#x", "https://host/m.mar?…"),
        ("https://secret@host/m.mar", "https://host/m.mar"),
        ("s3://key:secret@bucket/m", "s3://bucket/m"),
        ("ftp://me:secret@host/m", "ftp://host/m"),
        ("hf://secret@owner/m", "hf://owner/m"),
        ("abfs://container@account.dfs.core.windows.net/m", "abfs://container@account.dfs.core.windows.net/m"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("/a/plain@path:1", "/a/plain@path:1"),
    ],
)
def test_what_is_logged_has_no_login(text: str, shown: str) -> None:
    assert parse_uri(text).shown == shown
