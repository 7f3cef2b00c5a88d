"""Which schemes are served, and what the others are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storage_initializer.errors import UnsupportedSchemeError
from storage_initializer.plan import Transfer
from storage_initializer.registry import open_source
from storage_initializer.uri import parse_uri


@pytest.mark.parametrize("scheme", ["s3", "gs", "http", "https", "hf", "oci"])
def test_a_scheme_of_kserve_is_not_supported_yet(scheme: str) -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_source(Transfer(parse_uri(f"{scheme}://bucket/model"), Path("/dest")), Path("/mnt/pvc"))

    assert str(raised.value) == (
        f"{scheme}:// is not supported by this version; use pvc://CLAIM/PATH, file:///PATH or a path"
    )


def test_an_unknown_scheme_is_told_what_is_served() -> None:
    with pytest.raises(UnsupportedSchemeError) as raised:
        open_source(Transfer(parse_uri("ftp://host/model"), Path("/dest")), Path("/mnt/pvc"))

    assert str(raised.value) == "ftp:// is not a known scheme; use pvc://CLAIM/PATH, file:///PATH or a path"


def test_a_backend_is_imported_on_first_use_only() -> None:
    code = (
        "import sys, storage_initializer.cli\n"
        "print(sorted(m for m in sys.modules if m.startswith('storage_initializer.backends.')))\n"
        "print('javaproperties' in sys.modules)"
    )

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output == "[]\nFalse\n"
