"""All that one scheme needs, found by its line in the table."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from storage_initializer.cli import main
from storage_initializer.errors import UsageError
from storage_initializer.schemes import (
    INSTEAD,
    NETWORK_SETTINGS,
    SCHEMES,
    SETTINGS,
    backend_of,
    foreign_service,
    problem_of,
)
from storage_initializer.uri import parse_uri
from tests.support.runtimes import ROOT

BACKENDS = ROOT / "storage_initializer/backends"
PAGES = (ROOT / "docs/storage.md", ROOT / "storage_initializer/README.md")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_has_a_backend_that_opens_a_transfer_by_a_plan(scheme: str) -> None:
    backend = import_module(f"storage_initializer.backends.{SCHEMES[scheme].backend}")

    assert list(signature(backend.open_source).parameters) == ["transfer", "plan"]


def test_a_module_that_opens_sources_has_a_scheme() -> None:
    opening = {path.stem for path in BACKENDS.glob("*.py") if "\ndef open_source(" in path.read_text(encoding="utf-8")}

    assert opening - {scheme.backend for scheme in SCHEMES.values()} == set()


def test_the_form_of_a_uri_begins_with_its_scheme() -> None:
    assert {name for name, scheme in SCHEMES.items() if not scheme.form.startswith(f"{name}://")} == set()


def test_what_a_form_offers_is_taken() -> None:
    """A form is in messages: who follows one must not be refused next."""
    names = {"CLAIM": "claim", "ACCOUNT": "account", "[": "", "]": ""}
    for name, scheme in SCHEMES.items():
        uri = re.sub(r"CLAIM|ACCOUNT|\[|\]", lambda found: names[found[0]], scheme.form)

        assert (name, problem_of(parse_uri(uri))) == (name, None)


_NAMED = {
    "s3": ("s3://b{}/k", "s3://b/k{}"),
    "gs": ("gs://b{}/k", "gs://b/k{}"),
    "abfs": ("abfs://c{}@account.dfs.core.windows.net/p", "abfs://c@account.dfs.core.windows.net/p{}"),
    "abfss": ("abfss://c{}@account.dfs.core.windows.net/p", "abfss://c@account.dfs.core.windows.net/p{}"),
    "hf": ("hf://owner{}/model", "hf://owner/model{}", "hf://owner/model:main{}"),
    "https": (
        "https://host{}/a.mar",
        "https://host/a.mar{}",
        "https://account.blob.core.windows.net/c/p{}",
        "https://account.blob.core.windows.net/c{}/p",
    ),
    "http": ("http://host/a{}.mar",),
}


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\udc80"])
@pytest.mark.parametrize("scheme", [name for name, scheme in SCHEMES.items() if scheme.is_remote])
def test_what_is_no_text_in_one_line_is_refused_in_the_name_of_a_stored_model(scheme: str, character: str) -> None:
    problem = f"has the character {character!a}, which the name of a stored model cannot have; remove it"

    assert {problem_of(parse_uri(form.format(character))) for form in _NAMED[scheme]} == {problem}


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("pvc:/models/m", "pvc://models/m"), ("S3:/b/x", "s3://b/x"), ("gs:b", "gs://b"), ("s3//b", "s3://b"),
        ("file:/x", "file:///x"), ("oci:/a/b", "oci://a/b"), ("https:/u:p@h/x", "https://…"),
        ("https:/h/x?sig=1", "https://h/x"),
    ],
)  # fmt: skip
def test_a_known_scheme_with_other_slashes_is_no_path(uri: str, meant: str) -> None:
    assert problem_of(parse_uri(uri)) == f"has other slashes than a URI; write {meant}"


@pytest.mark.parametrize(
    "path", ["models/m", "/s3/b", "s3/b", "word:/b", "./pvc:/m", "file:///x", "file://localhost/x"]
)
def test_a_path_may_be_like_a_uri(path: str) -> None:
    assert problem_of(parse_uri(path)) is None


def test_a_file_may_have_any_name() -> None:
    assert {problem_of(parse_uri(uri)) for uri in ("pvc://claim/a\n\udc80", "file:///a\n\udc80", "/a\n")} == {None}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_scheme_is_documented(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("http(s)://", "http:// https://")

    assert {name for name in SCHEMES if f"{name}://" not in text} == set()


# Variables of the container itself, of the pod's identity, and of requests of every kind.
_OF_ALL = {
    "CA_BUNDLE_CONFIGMAP_NAME", "CA_BUNDLE_VOLUME_MOUNT_POINT", "GCE_METADATA_HOST", "PACKAGE_CACHE",
    "STORAGE_CACHE", "STORAGE_CACHE_SIZE", "STORAGE_LAYOUT", "STORAGE_PVC_ROOT", "STORAGE_CONFIG",
    "STORAGE_OVERRIDE_CONFIG", "TERMINATION_LOG",
}  # fmt: skip


def variables_read() -> set[str]:
    return {
        name
        for path in (ROOT / "storage_initializer").rglob("*.py")
        for name in re.findall(r"(?:environment|settings)(?:\.get\(|\[|, )\"([A-Za-z_0-9]+)\"", path.read_text())
        if path.stem not in ("inspection", "layout", "generate")  # those of config.properties
    }


def test_a_variable_that_is_read_is_one_of_a_scheme() -> None:
    read = variables_read()
    patterns = (SETTINGS, NETWORK_SETTINGS, *(scheme.settings for scheme in SCHEMES.values()))

    assert {"HF_TOKEN", "S3_ENDPOINT", "NO_PROXY", "S3_READ_TIMEOUT", "STORAGE_EMULATOR_HOST"} <= read
    assert {name for name in read - _OF_ALL if not any(re.fullmatch(pattern, name) for pattern in patterns)} == set()


_ROLE = {"AWS_ROLE_ARN": "arn:r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
_PRINCIPAL = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}
# Each variable that names a server, with a source that reads it, and what it is read beside.
_NAMING_A_SERVER: dict[str, tuple[str, dict[str, str]]] = {
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": ("s3://b/m", {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token"}),
    "AWS_EC2_METADATA_SERVICE_ENDPOINT": ("s3://b/m", {}),
    "AWS_ENDPOINT_URL": ("s3://b/m", {}),
    "AWS_ENDPOINT_URL_S3": ("s3://b/m", {}),
    "AWS_ENDPOINT_URL_STS": ("s3://b/m", _ROLE),
    "AZURE_AUTHORITY_HOST": ("abfs://c@a.dfs.core.windows.net/m", _PRINCIPAL),
    "AZURE_STORAGE_ENDPOINT": ("abfs://c@a.dfs.core.windows.net/m", _PRINCIPAL),
    "GCE_METADATA_HOST": ("gs://b/m", {}),
    "HF_ENDPOINT": ("hf://o/m", {}),
    "STORAGE_EMULATOR_HOST": ("gs://b/m", {}),
    "S3_ENDPOINT": ("s3://b/m", {}),
}


def test_the_variables_that_name_a_server_are_all_here() -> None:
    assert {name for name in variables_read() if re.search("ENDPOINT|_(URL|URI|HOST)", name)} == {*_NAMING_A_SERVER}


@pytest.mark.parametrize(
    "server", ["http://[::1", "http://host:99999", "ftp://host", "http://", "host:x", "http://a b/"]
)
@pytest.mark.parametrize("name", _NAMING_A_SERVER)
def test_a_server_that_has_no_url_is_refused_before_a_copy(
    name: str, server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri, beside = _NAMING_A_SERVER[name]
    models = tmp_path / "models"

    code = main([uri, str(models)], {**beside, name: server, "TERMINATION_LOG": str(tmp_path / "reason")})

    assert (code, models.exists()) == (UsageError.exit_code, False)
    assert re.search(r" is '.*', which is not a URL; write ", capfd.readouterr().err)


def test_what_reads_the_variables_of_a_backend_is_asked_before_isvc_run_starts_pods() -> None:
    asking = (ROOT / "operator/src/isvc/run/downloads.py").read_text(encoding="utf-8")
    reading = {name for path in BACKENDS.glob("*.py") for name in re.findall(r"\ndef (\w+_access)\(", path.read_text())}

    assert {name for name in reading if name not in asking} == set()


def test_no_scheme_is_supported_and_not() -> None:
    assert SCHEMES.keys() & INSTEAD.keys() == set()


@pytest.mark.parametrize(
    ("uri", "backend"),
    [
        ("https://me.blob.core.windows.net/models/m", "azure"),
        ("HTTPS://me.DFS.core.windows.net:443/models", "azure"),
        ("https://me.z01.blob.storage.azure.net/models/m", "azure"),
        ("https://me.blob.core.chinacloudapi.cn/models/m", "azure"),
        ("https://me.blob.core.usgovcloudapi.net/models/a#b", "azure"),
        ("https://files.example.com/download?name=model.git", "http"),
        ("https://blob.core.windows.net.example.com/m.mar", "http"),
    ],
)
def test_the_blobs_of_azure_have_addresses_of_a_web_server(uri: str, backend: str) -> None:
    assert (backend_of(uri, "https"), foreign_service(uri)) == (backend, None)


@pytest.mark.parametrize(
    ("uri", "service"),
    [
        ("https://me.blob.core.windows.net/models/m?sig=secret", "Azure Blob Storage with a query, a login or no TLS"),
        ("http://me.blob.core.windows.net/models/m", "Azure Blob Storage with a query, a login or no TLS"),
        ("https://me.file.core.windows.net/share/m", "Azure Files"),
        ("https://me.file.core.usgovcloudapi.net/share/m", "Azure Files"),
        ("https://git.example.com/team/model.git/", "a Git repository"),
        ("https://git.example.com/team/model.git?ref=main", "a Git repository"),
        ("https://git.example.com/team/model.git#main", "a Git repository"),
        ("https://example.com/model.mar", None),
        ("s3://bucket/model.git", None),
    ],
)
def test_which_services_are_not_read(uri: str, service: str | None) -> None:
    assert foreign_service(uri) == service
