"""All that one scheme needs, found by its line in the table."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from storage_initializer.schemes import INSTEAD, SCHEMES, forms
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_scheme_is_documented(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("http(s)://", "http:// https://")

    assert {name for name in SCHEMES if f"{name}://" not in text} == set()


def test_no_scheme_is_supported_and_not() -> None:
    assert SCHEMES.keys() & INSTEAD.keys() == set()


def test_all_forms_are_listed() -> None:
    assert forms() == (
        "s3://BUCKET[/PATH], gs://BUCKET[/PATH], hf://OWNER/MODEL[:REVISION], https://HOST/FILE, http://HOST/FILE, "
        "pvc://CLAIM[/PATH], file:///PATH"
    )
