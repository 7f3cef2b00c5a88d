"""Which schemes are served, and what the others are told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from storage_initializer.errors import UnsupportedSchemeError
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source


def open_uri(text: str) -> None:
    plan = make_plan([text, "/dest"], {})
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


def test_an_unknown_scheme_is_told_what_is_served() -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_uri("ftp://host/model")

    assert str(raised.value) == (
        "ftp:// is not a known scheme; use s3://BUCKET[/PATH], gs://BUCKET[/PATH], "
        "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH], abfss://CONTAINER@ACCOUNT.dfs.core.windows.net[/PATH], "
        "hf://OWNER/MODEL[:REVISION], https://HOST/FILE, http://HOST/FILE, pvc://CLAIM[/PATH], file:///PATH or a path"
    )


@pytest.mark.process
def test_a_backend_is_imported_on_first_use_only() -> None:
    code = (
        "import sys, storage_initializer.cli\n"
        "print(sorted(m for m in sys.modules if m.startswith('storage_initializer.backends.')))\n"
        "print({'javaproperties', 'obstore', 'urllib3', 'google.auth', 'huggingface_hub'} & set(sys.modules))"
    )

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output == "[]\nset()\n"
