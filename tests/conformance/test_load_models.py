"""`load_models` names an archive that the store does not hold: the others are served."""

from __future__ import annotations

import pytest

from tests.conformance.cases.settings import HEALTHY, MISSING, UNDECODED
from tests.conformance.conftest import Record
from tests.support.runtimes import OURS, TORCHSERVE


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_missing_archive_is_named_and_the_others_are_served(recorded: Record, kind: str) -> None:
    recording = recorded(kind, "settings")
    served, gone, healthy = (recording.cases[case.name] for case in (UNDECODED, MISSING, HEALTHY))

    assert (served.status, healthy.document) == (200, {"status": "Healthy"})
    assert gone.status == (404 if kind == TORCHSERVE else 503)
    assert "gone.mar" in recording.log


@pytest.mark.parametrize("kind", OURS)
def test_the_v1_protocol_says_of_each_whether_it_is_ready(recorded: Record, kind: str) -> None:
    assert recorded(kind, "settings").ready == {"probe": 200, "gone": 503}
