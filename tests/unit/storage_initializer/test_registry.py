"""Which schemes are served, and what the others are told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from storage_initializer.errors import UnsupportedSchemeError, UsageError
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source


def open_uri(text: str) -> None:
    plan = make_plan(["--", text, "/dest"], {})
    open_source(plan.transfers[0], plan)


@pytest.mark.parametrize(
    ("uri", "shown", "service"),
    [
        ("https://me.blob.core.windows.net/models/m?sig=secret", "https://me.blob.core.windows.net/models/m?…",
         "Azure Blob Storage with a query, a login or no TLS"),
        ("https://me.file.core.windows.net/share/m", "https://me.file.core.windows.net/share/m", "Azure Files"),
        ("https://git.example.com/team/model.git", "https://git.example.com/team/model.git", "a Git repository"),
    ],
)  # fmt: skip
def test_a_service_that_is_not_read_over_https_is_named(uri: str, shown: str, service: str) -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_uri(uri)

    assert str(raised.value) == (
        f"{shown} is {service}, which is not supported; let a ClusterStorageContainer download it, or copy the model "
        "to a bucket or a claim and name that"
    )


_NO_CONTAINER = (
    "it names no container of an account; write https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH, without a query, "
    "or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
)
_NO_MODEL = (
    "it is not a model of a hub; write hf://OWNER/MODEL or hf://OWNER/MODEL:REVISION, and choose its files by "
    "patterns: STORAGE_ALLOW_PATTERNS, or the annotation storage.isvc-operator.io/allow-patterns"
)
_NO_NAME = (
    "it is not a model of a hub, whose names have letters, digits, '.', '_' and '-', but no '..'; write "
    "hf://OWNER/MODEL"
)


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("s3://", "it names no bucket; write s3://BUCKET/PATH"),
        ("gs:///models", "it names no bucket; write gs://BUCKET/PATH"),
        ("s3://my bucket/m",
         "it names no bucket, whose name has letters, digits, '.', '_' and '-'; write s3://BUCKET/PATH"),
        ("s3://[/m", "it names no bucket, whose name has letters, digits, '.', '_' and '-'; write s3://BUCKET/PATH"),
        *((uri, _NO_CONTAINER) for uri in (
            "abfs://models/bert", "abfs://@me.dfs.core.windows.net/bert", "abfs://models@me.example.com/bert",
            "abfs://models@me.dfs.core.windows.net/bert?sv=1", "https://me.blob.core.windows.net/",
        )),
        *((uri, _NO_MODEL) for uri in (
            "hf://model", "hf:///model", "hf://owner/", "hf://owner/:main", "hf://owner/model/file",
        )),
        *((uri, _NO_NAME) for uri in (
            "hf://owner/a..b", "hf://owner/model.git", "hf://owner/mödel", "hf://owner/-model:main", "hf://o n/model",
        )),
        *((uri.format(part), f"it has {named!r} in its path; write the path without it")
          for uri in ("s3://b{}k", "gs://b/a{}k", "abfs://c@me.dfs.core.windows.net/a{}k")
          for part, named in (("/../", ".."), ("/./", "."), ("/a//", "//"))),
        *((f"s3://b/{path}", "it has '//' in its path; write the path without it") for path in ("a//", "//", "//a")),
        ("s3://b/a/..", "it has '..' in its path; write the path without it"),
        ("https:///model", "it names no host; write https://HOST/FILE"),
        ("https://host:99999/model", "it has an invalid host or port; write https://HOST/FILE"),
        ("http://[::1/model", "it has an invalid host or port; write http://HOST/FILE"),
        ("pvc://", "it names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"),
        ("pvc://My_Claim/a", "it names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"),
        ("pvc://../other", "it names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"),
        ("pvc://leeway/../other", "it has '..' in its path; name the folder of the claim itself"),
        ("-models", "it looks like a flag; write file:///PATH"),
        ("file://server/models", "it names the host server, and a file URI has none; write file:///PATH"),
    ],
)  # fmt: skip
def test_a_uri_without_its_parts_is_told_which(uri: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_uri(uri)

    assert str(raised.value) == problem


@pytest.mark.parametrize(
    "model",
    ["owner/model", "a/b", "o-w.n_r/m-0.1", "-a/b", "a/b-", "a/.b", "a..b/c", "a/b--c", "a/b.git", "a/bgit", "ü/b",
     f"a/{'b' * 96}", f"a/{'b' * 97}", f"{'a' * 97}/b", "_a/b_"],
)  # fmt: skip
def test_the_name_of_a_model_is_taken_as_by_the_hubs_own_library(model: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(model)
    except HFValidationError:
        with pytest.raises(UsageError):
            open_uri(f"hf://{model}")
    else:
        open_uri(f"hf://{model}")


def test_an_unknown_scheme_is_told_what_is_served() -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_uri("ftp://host/model")

    assert str(raised.value) == (
        "ftp:// is not a known scheme; use s3://BUCKET[/PATH], gs://BUCKET[/PATH], "
        "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH], abfss://CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH], "
        "hf://OWNER/MODEL[:REVISION], https://HOST/FILE, http://HOST/FILE, pvc://CLAIM[/PATH], file:///PATH or a path"
    )


@pytest.mark.parametrize(("uri", "meant"), [("s4://bucket/x", "s3"), ("htps://host/x", "https")])
def test_a_misspelt_scheme_is_told_which_is_meant(uri: str, meant: str) -> None:
    scheme = uri.partition(":")[0]
    with pytest.raises(
        UnsupportedSchemeError, match=rf"^{scheme}:// is not a known scheme \(did you mean {meant}://\?\);"
    ):
        open_uri(uri)


@pytest.mark.process
def test_a_backend_is_imported_on_first_use_only() -> None:
    code = (
        "import sys, storage_initializer.cli\n"
        "print(sorted(m for m in sys.modules if m.startswith('storage_initializer.backends.')))\n"
        "print({'javaproperties', 'obstore', 'urllib3', 'google.auth', 'huggingface_hub'} & set(sys.modules))"
    )

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output == "[]\nset()\n"
