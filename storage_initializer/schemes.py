"""The schemes of storage URIs, for the operator as well. A new kind of source is one module in ``backends`` and one row
here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage_initializer.uri import LOCAL_SCHEME, Uri, split


@dataclass(frozen=True)
class SourceScheme:
    """A scheme that can be brought."""

    backend: str
    """The module of ``storage_initializer.backends`` that opens such a source."""
    form: str
    """How such a URI is written, for ``--help`` and messages."""
    problem: Callable[[Uri], str | None]
    """Says what is wrong with such a URI, as in ``names no bucket; write s3://BUCKET/PATH``."""
    settings: str = "(?!)"
    """An expression for the variables that such a source alone reads."""
    is_remote: bool = True
    """Whether it is downloaded, and may be kept in the node's cache."""


@dataclass(frozen=True)
class AzureAddress:
    """A container of an account, the host of its blobs, and a path in it."""

    account: str
    container: str
    host: str
    path: str


_AZURE_HOST = re.compile(r"([a-z0-9]+)\.(?:[a-z0-9]+\.)?(?:blob|dfs)\.[a-z.]+(?::443)?")
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SLASHES = re.compile(r"([A-Za-z0-9]+)(?!://)(?::/?|//)(.*)", re.DOTALL)  # of a URI that is taken for a path
_UNWRITTEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters, and what is not Unicode
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# As the hub's own library has it.
_MODEL = re.compile(r"(?!.*(?:--|\.\.))(?:\b[\w.-]{1,96}\b)/(?:\b[\w.-]{1,96}\b)(?<!\.git)", re.ASCII)


def azure_address(uri: Uri) -> AzureAddress:
    """Return what an https or abfs URI names; raise ValueError if that is not a container."""
    if uri.scheme == "https":
        host, (container, _, path) = uri.authority, uri.path.partition("/")
    else:
        (container, _, host), path = uri.authority.partition("@"), uri.path
    match = _AZURE_HOST.fullmatch(host.lower())
    if match is None or not container or "?" in uri.path:
        raise ValueError(
            "names no container of an account; write https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH, "
            "without a query, or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
        )
    return AzureAddress(match[1], container, host.lower().removesuffix(":443").replace(".dfs.", ".blob.", 1), path)


def _of_bucket(uri: Uri) -> str | None:
    if not uri.authority:
        return f"names no bucket; write {uri.scheme}://BUCKET/PATH"
    if not _BUCKET.fullmatch(uri.authority):
        return f"names no bucket, whose name has letters, digits, '.', '_' and '-'; write {uri.scheme}://BUCKET/PATH"
    return _of_key(uri.path)


def _of_azure(uri: Uri) -> str | None:
    try:
        return _of_key(azure_address(uri).path)
    except ValueError as error:
        return str(error)


def _of_key(path: str) -> str | None:
    """Name a part of a path that means another place on a disk; the library of stores takes none as a name."""
    odd = "//" if "//" in path else next((part for part in path.split("/") if part in (".", "..")), None)
    return f"has {odd!r} in its path; write the path without it" if odd else None


def _of_hub(uri: Uri) -> str | None:
    name = uri.path.partition(":")[0]
    if not uri.authority or not name or "/" in name:
        return (
            "is not a model of a hub; write hf://OWNER/MODEL or hf://OWNER/MODEL:REVISION, and choose its files by "
            "patterns: STORAGE_ALLOW_PATTERNS, or the annotation storage.isvc-operator.io/allow-patterns"
        )
    if not _MODEL.fullmatch(f"{uri.authority}/{name}"):
        return (
            "is not a model of a hub, whose names have letters, digits, '.', '_' and '-', but no '..'; write "
            "hf://OWNER/MODEL"
        )
    return None


def _of_web(uri: Uri) -> str | None:
    if _AZURE_BLOB.fullmatch(uri.text):
        return _of_azure(uri)
    parts = split(f"{uri.scheme}://{uri.authority.rpartition('@')[2]}/")
    if parts and parts.hostname:
        return None
    return f"{'has an invalid host or port' if uri.authority else 'names no host'}; write {uri.scheme}://HOST/FILE"


def _of_claim(uri: Uri) -> str | None:
    if not _CLAIM.fullmatch(uri.authority):
        return "names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"
    if ".." in PurePosixPath(uri.path).parts:
        return "has '..' in its path; name the folder of the claim itself"
    return None


def _of_file(uri: Uri) -> str | None:
    if (found := _SLASHES.fullmatch(uri.text)) and (scheme := found[1].lower()) in {*SCHEMES, *INSTEAD}:
        rest = ("/" if scheme == LOCAL_SCHEME else "") + found[2].lstrip("/")
        return f"has other slashes than a URI; write {scheme}://{'…' if '@' in rest else rest.partition('?')[0]}"
    if uri.path.startswith("-"):
        return "looks like a flag; write file:///PATH"
    if uri.authority in ("", "localhost"):
        return None
    return f"names the host {uri.authority}, and a file URI has none; write file:///PATH"


_AZURE_SETTINGS = "(AZURE|AZ)_.+"
_CONTAINER = "CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH]"
SCHEMES: Mapping[str, SourceScheme] = {
    "s3": SourceScheme("s3", "s3://BUCKET[/PATH]", _of_bucket, "(AWS|S3)_.+|awsAnonymousCredential"),
    "gs": SourceScheme("gs", "gs://BUCKET[/PATH]", _of_bucket, "GOOGLE_APPLICATION_CREDENTIALS|STORAGE_EMULATOR_HOST"),
    "abfs": SourceScheme("azure", f"abfs://{_CONTAINER}", _of_azure, _AZURE_SETTINGS),
    "abfss": SourceScheme("azure", f"abfss://{_CONTAINER}", _of_azure, _AZURE_SETTINGS),
    "hf": SourceScheme("hf", "hf://OWNER/MODEL[:REVISION]", _of_hub, "HF_TOKEN|HF_ENDPOINT"),
    "https": SourceScheme("http", "https://HOST/FILE", _of_web, f"{_AZURE_SETTINGS}|.+-headers"),
    "http": SourceScheme("http", "http://HOST/FILE", _of_web, ".+-headers"),
    "pvc": SourceScheme("pvc", "pvc://CLAIM[/PATH]", _of_claim, is_remote=False),
    "file": SourceScheme("local", "file:///PATH", _of_file, is_remote=False),
}
# Variables that every download reads, and every one over the network.
SETTINGS = "STORAGE_(ALLOW_PATTERNS|IGNORE_PATTERNS|SHA256)"
NETWORK_SETTINGS = "(?i:(https?|all|no)_proxy)"
ENTRY_FIELDS: Mapping[str, str] = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region": "AWS_DEFAULT_REGION",
    "ca_bundle": "AWS_CA_BUNDLE",
    "verify_ssl": "S3_VERIFY_SSL",
    "anonymous": "awsAnonymousCredential",
    "use_virtual_bucket": "S3_USER_VIRTUAL_BUCKET",
    "use_accelerate": "S3_USE_ACCELERATE",
}
"""The variables for the fields of an entry of the secret ``storage-config`` whose type is s3."""
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


def problem_of(uri: Uri) -> str | None:
    """Say what is wrong with a URI of a scheme that is known; None if nothing is.

    No name in a store or on the web has what cannot be written in a line of text. A file's may have it.
    """
    scheme = SCHEMES[uri.scheme]
    if scheme.is_remote and (found := _UNWRITTEN.search(uri.text)):
        return f"has the character {found[0]!a}, which the name of a stored model cannot have; remove it"
    return scheme.problem(uri)


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
