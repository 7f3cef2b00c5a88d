"""What handlers report is summed up; what cannot be costs no request."""

from __future__ import annotations

import logging
from typing import Literal

import pytest

from mar_runtime.metrics.exposition import HandlerMetrics
from torchserve_compat.frames import HandlerFailure, HandlerResult, Sample


def sample(
    name: str, value: float = 1.0, kind: Literal["counter", "gauge", "histogram"] = "counter", **labels: str
) -> Sample:
    return Sample(name, kind, value, labels)


async def shown(metrics: HandlerMetrics) -> dict[str, float]:
    """Every line but those that change with the clock or with buckets."""
    lines = (await metrics.exposition()).decode().splitlines()
    values = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in values if "_created" not in name and "_bucket" not in name}


async def test_values_of_all_kinds_are_summed_up_by_their_labels() -> None:
    metrics = HandlerMetrics("h")

    metrics.add([sample("Calls", Level="Model"), sample("Calls", 2.0, Level="Model"), sample("Calls", Level="Other")])
    metrics.add([sample("Size", 3.0, "gauge"), sample("Size", 5.0, "gauge")])
    metrics.add([sample("Took", 2.0, "histogram"), sample("Took", 4.0, "histogram")])

    assert await shown(metrics) == {
        'Calls{Hostname="h",Level="Model"}': 3.0,
        'Calls{Hostname="h",Level="Other"}': 1.0,
        'Size{Hostname="h"}': 5.0,
        'Took_count{Hostname="h"}': 2.0,
        'Took_sum{Hostname="h"}': 6.0,
    }


async def test_each_metric_has_its_type() -> None:
    metrics = HandlerMetrics("h")
    metrics.add([sample("Calls"), sample("Calls_of_h"), sample("Size", 3.0, "gauge"), sample("Took", 2.0, "histogram")])

    lines = (await metrics.exposition()).decode().splitlines()

    assert [line for line in lines if line.startswith("# TYPE") and "_created" not in line] == [
        "# TYPE Calls counter", "# TYPE Calls_of_h counter", "# TYPE Size gauge", "# TYPE Took histogram",
    ]  # fmt: skip


async def test_names_become_what_prometheus_allows() -> None:
    metrics = HandlerMetrics("h")

    metrics.add([Sample("time.of-step", "gauge", 1.0, {"the step": "one"})])

    assert await shown(metrics) == {'time_of_step{Hostname="h",the_step="one"}': 1.0}


@pytest.mark.parametrize(
    "misfit",
    [
        pytest.param(sample("Calls", -1.0, Level="Model"), id="a counter that falls"),
        pytest.param(sample("Calls", Place="here"), id="other labels"),
        pytest.param(sample("Calls"), id="no labels"),
        pytest.param(sample("Ca.lls"), id="a free name"),
        pytest.param(sample("C_alls"), id="a name that is fine"),
        pytest.param(sample("Calls", 1.0, "gauge"), id="a name that is taken"),
        pytest.param(sample("Calls", 7.0, "gauge", Level="Model"), id="a gauge of the name of a counter"),
        pytest.param(sample("Calls", 7.0, "histogram", Level="Model"), id="a histogram of the name of a counter"),
        pytest.param(sample("1st"), id="a name that begins with a digit"),
        pytest.param(sample(""), id="no name"),
        pytest.param(sample("Took", 1.0, "histogram", le="1"), id="a label of Prometheus' own"),
    ],
)
async def test_whatever_is_reported_the_others_are_kept(misfit: Sample) -> None:
    metrics = HandlerMetrics("h")

    metrics.add([sample("Calls", Level="Model"), misfit, sample("Calls", Level="Model")])

    assert (await shown(metrics))['Calls{Hostname="h",Level="Model"}'] == 2.0


async def test_what_is_left_out_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    metrics = HandlerMetrics("h")

    with caplog.at_level(logging.WARNING):
        metrics.add([sample("Calls", -1.0)] * 3)

    assert [record.message for record in caplog.records] == [
        "values of metric Calls are dropped: a counter cannot fall by 1"
    ]


async def test_a_metric_stays_of_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    metrics = HandlerMetrics("h")

    metrics.add([sample("Took", 2.0, "histogram"), sample("Took", 9.0, "gauge")])

    assert await shown(metrics) == {'Took_count{Hostname="h"}': 1.0, 'Took_sum{Hostname="h"}': 2.0}
    assert caplog.messages == ["values of metric Took are dropped: a histogram cannot become a gauge"]


async def test_names_that_are_one_to_prometheus_are_one_metric() -> None:
    metrics = HandlerMetrics("h")

    metrics.add([sample("lat.99"), sample("lat_99", 2.0)])

    assert await shown(metrics) == {'lat_99{Hostname="h"}': 3.0}


async def test_the_time_that_a_model_took_last_is_told_by_torchserves_name() -> None:
    metrics = HandlerMetrics("h")

    for result in (
        HandlerResult([], 0.5),
        HandlerResult([], 0.012345),
        HandlerResult([], 9.0, HandlerFailure("no", 500)),
    ):
        metrics.take("m", result)

    assert await shown(metrics) == {'PredictionTime{Hostname="h",Level="Model",ModelName="m"}': 12.35}


async def test_a_label_of_the_handlers_own_wins() -> None:
    metrics = HandlerMetrics("h")

    metrics.add([sample("Calls", Hostname="elsewhere")])

    assert await shown(metrics) == {'Calls{Hostname="elsewhere"}': 1.0}
