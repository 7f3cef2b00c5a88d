"""The files of packages that the dashboard serves are what the packages have: nobody edits them."""

from __future__ import annotations

import json

from tests.support.vendored import DIGESTS, VENDOR, digests


def test_each_file_is_as_its_package_has_it() -> None:
    assert digests() == json.loads(DIGESTS.read_text())


def test_there_is_no_other_file() -> None:
    files = {str(file.relative_to(VENDOR)) for file in VENDOR.rglob("*") if file.is_file()}

    assert files == {*digests(), DIGESTS.name}
