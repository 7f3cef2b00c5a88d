"""Values of config.properties that TorchServe has no use for: refused with their reason, or served as if not set."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.conformance.test_bad_archives import MAINS
from tests.conformance.values import ENDS, MODEL, VALUES, Value, recorded, write_folder
from tests.support.runtimes import OURS, Runtime

pytestmark = pytest.mark.timeout(600)
SERVED = [value for value in VALUES if not value.refused]
# Of each setting, one value for each server.
ROUNDS = max(sum(value.setting == other.setting for other in SERVED) for value in SERVED)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(kind, value, id=f"{kind}-{value.line}")
        for kind in OURS
        for value in VALUES
        if value.is_refused_by(kind)
    ],
)
def test_a_value_that_makes_no_sense_ends_the_server(tmp_path: Path, kind: str, value: Value) -> None:
    folder = write_folder(tmp_path / "models", value)
    log = tmp_path / "termination-log"
    flags = ["--model-dir", folder, "--work-dir", tmp_path / "work", "--termination-log", log, "--host", "127.0.0.1"]

    with patch.dict(os.environ):  # isvc-mar sets variables for the libraries of its models
        exit_code = MAINS[kind]([*map(str, flags), "--http-port", "0", "--grpc-port", "0"])

    assert (exit_code, log.read_text().strip()) == (3, value.refused)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("place", range(ROUNDS))
def test_other_values_are_served(tmp_path: Path, kind: str, place: int) -> None:
    by_setting: dict[str, list[Value]] = {}
    for value in SERVED:
        by_setting.setdefault(value.setting, []).append(value)
    values = [of_setting[place] for of_setting in by_setting.values() if place < len(of_setting)]

    with Runtime(kind, write_folder(tmp_path / "models", *values), has_torch=False) as runtime:
        runtime.wait_ready([MODEL])

        assert runtime.predict(MODEL, {"instances": [1]}).document == {"predictions": ["served"]}


def test_what_ours_refuse_torchserve_ends_for_or_serves_otherwise() -> None:
    outcomes = recorded()

    assert [value.line for value in VALUES if value.line not in outcomes] == []
    assert {value.line for value in SERVED if outcomes[value.line] == ENDS} <= {f"{one.setting}=" for one in VALUES}
