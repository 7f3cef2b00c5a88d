"""What a handler measures with `context.metrics` shows where Prometheus looks."""

from __future__ import annotations

import re
import socket

import pytest

from tests.conformance.cases.results import MEASURE
from tests.conformance.conftest import Record
from tests.conformance.recorder import HOSTNAME
from tests.support.runtimes import OURS, TORCHSERVE

pytestmark = pytest.mark.timeout(600)
_PREDICTION_TIME = re.compile(r"^PredictionTime\{(.*)\} \S+$", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE ((?:Probe\w+|PredictionTime) \w+)$", re.MULTILINE)
_SAMPLE = re.compile(r"^(Probe\w+)\{(.*)\} (\S+)$", re.MULTILINE)


def _samples(metrics: str) -> dict[str, tuple[float, dict[str, str]]]:
    """Value and labels of what the probe measured."""
    found = {}
    for name, labels, value in _SAMPLE.findall(metrics):
        by_name = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[name] = (float(value), by_name)
    return found


def torchserves(recorded: Record) -> str:
    """As on this machine."""
    return recorded(TORCHSERVE, "").metrics.replace(HOSTNAME, socket.gethostname())


def test_torchserve_shows_what_the_handler_measured(recorded: Record) -> None:
    assert set(_samples(recorded(TORCHSERVE, "").metrics)) == {
        "ProbeCounter",
        "ProbeTime",
        "ProbeSize",
        "ProbePercent",
        "ProbeError",
    }


@pytest.mark.parametrize("kind", OURS)
def test_ours_show_the_same(recorded: Record, kind: str) -> None:
    recording = recorded(kind, "")

    assert recording.cases[MEASURE.name].body == b"measured"
    assert _samples(recording.metrics) == _samples(torchserves(recorded))


@pytest.mark.parametrize("kind", OURS)
def test_ours_have_the_same_types(recorded: Record, kind: str) -> None:
    ours, theirs = (set(_TYPE.findall(metrics)) for metrics in (recorded(kind, "").metrics, torchserves(recorded)))

    assert ours == theirs
    assert "ProbeCounter counter" in theirs


@pytest.mark.parametrize("kind", OURS)
def test_the_time_that_each_model_took_last_has_torchserves_name_and_labels(recorded: Record, kind: str) -> None:
    times, reference = (
        {frozenset(re.findall(r'(\w+)="([^"]*)"', labels)) for labels in _PREDICTION_TIME.findall(metrics)}
        for metrics in (recorded(kind, "").metrics, torchserves(recorded))
    )

    assert times == reference
