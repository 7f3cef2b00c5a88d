"""The schemes of storage URIs, for the operator as well. A new kind of source is one module in ``backends`` and one row
here."""

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


_CONTAINER = "CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH]"
SCHEMES: Mapping[str, SourceScheme] = {
    "s3": SourceScheme("s3", "s3://BUCKET[/PATH]"),
    "gs": SourceScheme("gs", "gs://BUCKET[/PATH]"),
    "abfs": SourceScheme("azure", f"abfs://{_CONTAINER}"),
    "abfss": SourceScheme("azure", f"abfss://{_CONTAINER}"),
    "hf": SourceScheme("hf", "hf://OWNER/MODEL[:REVISION]"),
    "https": SourceScheme("http", "https://HOST/FILE"),
    "http": SourceScheme("http", "http://HOST/FILE"),
    "pvc": SourceScheme("pvc", "pvc://CLAIM[/PATH]", is_remote=False),
    "file": SourceScheme("local", "file:///PATH", is_remote=False),
}
_COPY = "copy the model to a bucket or a claim and name that"
INSTEAD: Mapping[str, str] = {
    "oci": "on a cluster the pod uses the image itself; here, copy its folder /models out of it and name that",
    "hdfs": _COPY,
    "webhdfs": _COPY,
    "modelscope": _COPY,
    "git": _COPY,
}
"""What to do instead, for schemes of KServe that are not supported."""
_AZURE = r"(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|storage\.azure\.net)(?::\d+)?/"
_AZURE_BLOB = re.compile(rf"https://[^/?#@]+\.(?:blob|dfs)\.{_AZURE}[^?]*", re.IGNORECASE)
_SERVICES = (
    (
        re.compile(rf"https?://[^/?#]+\.(?:blob|dfs)\.{_AZURE}.*", re.IGNORECASE),
        "Azure Blob Storage with a query, a login or no TLS",
    ),
    (re.compile(rf"https?://[^/?#]+\.file\.{_AZURE}.*", re.IGNORECASE), "Azure Files"),
    (re.compile(r"https?://[^?#]+\.git/?(?:[?#].*)?", re.IGNORECASE), "a Git repository"),
)


def backend_of(uri: str, scheme: str) -> str:
    """Return the module that opens a URI: its scheme's, but for the https URIs of Azure's blobs."""
    return "azure" if _AZURE_BLOB.fullmatch(uri) else SCHEMES[scheme].backend


def foreign_service(uri: str) -> str | None:
    """Return the service behind an https URI if it has to be read in its own way, which is not supported."""
    if _AZURE_BLOB.fullmatch(uri):
        return None
    return next((name for pattern, name in _SERVICES if pattern.fullmatch(uri)), None)


def forms() -> str:
    """Return how the supported URIs are written; a plain path is one as well."""
    return ", ".join(scheme.form for scheme in SCHEMES.values())
