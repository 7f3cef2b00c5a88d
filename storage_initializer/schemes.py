"""The schemes of storage URIs. A new kind of source is one module in ``backends`` and one line here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceScheme:
    """A scheme that can be brought."""

    backend: str
    """The module of ``storage_initializer.backends`` that opens such a source."""
    form: str
    """How such a URI is written, for ``--help`` and messages."""
    is_remote: bool = True
    """Whether it is downloaded, and may be kept in the node's cache."""


SCHEMES: Mapping[str, SourceScheme] = {
    "s3": SourceScheme("s3", "s3://BUCKET[/PATH]"),
    "gs": SourceScheme("gs", "gs://BUCKET[/PATH]"),
    "https": SourceScheme("http", "https://HOST/FILE"),
    "http": SourceScheme("http", "http://HOST/FILE"),
    "pvc": SourceScheme("pvc", "pvc://CLAIM[/PATH]", is_remote=False),
    "file": SourceScheme("local", "file:///PATH", is_remote=False),
}
INSTEAD: Mapping[str, str] = {
    "hf": "download the model with the hf command, put it in a bucket or on a claim and name that",
    "oci": "mount the image as a volume, or copy its files to a bucket or a claim and name that",
    "hdfs": "copy the model to a bucket or a claim and name that",
    "webhdfs": "copy the model to a bucket or a claim and name that",
    "git": "copy the model to a bucket or a claim and name that",
}
"""What to do instead, for schemes of KServe that are not supported."""
_SERVICES = (
    (
        re.compile(r"https?://[^/?#]+\.(?:blob|dfs)\.core\.windows\.net(?::\d+)?/.*", re.IGNORECASE),
        "Azure Blob Storage",
    ),
    (re.compile(r"https?://[^/?#]+\.file\.core\.windows\.net(?::\d+)?/.*", re.IGNORECASE), "Azure Files"),
    (re.compile(r"https?://[^?#]+\.git/?", re.IGNORECASE), "a Git repository"),
)


def foreign_service(uri: str) -> str | None:
    """Return the service behind an https URI if it has to be read in its own way, which is not supported."""
    return next((name for pattern, name in _SERVICES if pattern.fullmatch(uri)), None)


def forms() -> str:
    """Return how the supported URIs are written; a plain path is one as well."""
    return ", ".join(scheme.form for scheme in SCHEMES.values())
