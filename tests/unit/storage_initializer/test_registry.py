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


@pytest.mark.parametrize("scheme", ["hf", "oci", "hdfs", "webhdfs"])
def test_a_scheme_of_kserve_that_is_not_served_is_told_what_to_do_instead(scheme: str) -> None:
    with pytest.raises(UnsupportedSchemeError, match=rf"^{scheme}:// is not supported; .* and name that$"):
        open_uri(f"{scheme}://bucket/model")


def test_an_unknown_scheme_is_told_what_is_served() -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_uri("ftp://host/model")

    assert str(raised.value) == (
        "ftp:// is not a known scheme; use s3://BUCKET[/PATH], gs://BUCKET[/PATH], https://HOST/FILE, "
        "http://HOST/FILE, pvc://CLAIM[/PATH], file:///PATH or a path"
    )


@pytest.mark.process
def test_a_backend_is_imported_on_first_use_only() -> None:
    code = (
        "import sys, storage_initializer.cli\n"
        "print(sorted(m for m in sys.modules if m.startswith('storage_initializer.backends.')))\n"
        "print({'javaproperties', 'google_crc32c', 'google.auth'} & set(sys.modules))"
    )

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output == "[]\nset()\n"
