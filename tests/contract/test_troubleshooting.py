"""Each row of docs/troubleshooting.md with a fix is provoked once, and its fix, followed, mends it.

A row that needs servers or a cluster names the test that does so.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc.view.diagnosis import diagnose
from isvc.view.service import view_of
from tests.contract.troubles import responses, servers, services, storage
from tests.contract.troubles.rows import Elsewhere, Observed, Provoked, Tried, is_of, rows
from tests.support.failing_services import FAILING_SERVICES
from tests.support.named_tests import missing

TRIED: tuple[Tried, ...] = (*services.HERE, *storage.HERE, *servers.HERE, *responses.HERE)
PROVOKED = [tried for tried in TRIED if isinstance(tried, Provoked)]
OBSERVED = [tried for tried in TRIED if isinstance(tried, Observed)]


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may write to, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="troubles-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def name(tried: Tried) -> str:
    return ": ".join(tried.row)


def test_each_row_with_a_fix_is_tried_once() -> None:
    found = {row: [tried.row for tried in TRIED if is_of(tried, row)] for row in rows()}

    assert {row: several for row, several in found.items() if len(several) != 1} == {}
    assert [tried.row for tried in TRIED if not any(is_of(tried, row) for row in found)] == []


@pytest.mark.parametrize("tried", PROVOKED, ids=name)
def test_what_is_said_is_mended_by_the_fix(tried: Provoked, open_path: Path) -> None:
    wrong, mended = open_path / "wrong", open_path / "mended"
    for folder in (wrong, mended):
        folder.mkdir()
        folder.chmod(0o777)

    said, after = tried.wrong(wrong), tried.mended(mended)

    assert tried.said in said
    assert said.startswith(re.split("[ ,]", tried.row[0].strip("`"))[0])
    assert after == ""


@pytest.mark.parametrize("tried", OBSERVED, ids=name)
def test_a_state_that_only_a_cluster_has_is_diagnosed_with_a_fix(tried: Observed) -> None:
    findings = [diagnose(view_of(FAILING_SERVICES[case][1])).findings[0] for case in tried.cases]

    told = {f"`{one.reason}`" if one.reason != "ServerFailed" else str(one.exit_code) for one in findings}
    assert told <= set(tried.row[0].split(", "))
    assert all(finding.fix for finding in findings)


def test_the_tests_that_are_named_exist() -> None:
    assert missing(tried.test for tried in TRIED if isinstance(tried, Elsewhere | Observed)) == []
