"""What the operator reports of itself: probes, its log, metrics and traces."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from isvc_operator.kube.requests import path_of
from tests.integration.operator_core.conftest import new_namespace
from tests.integration.operator_core.test_autoscaling import SCALED_OBJECTS
from tests.support.apiserver import ApiServer
from tests.support.monitored_operator import Monitored, monitored_operator
from tests.support.otlp_collector import Collector, collecting
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.endpoint)
        patched.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # milliseconds
        yield server


@pytest.fixture(scope="module")
def monitored(
    apiserver: ApiServer, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Monitored]:
    ready, refused = new_namespace(apiserver), new_namespace(apiserver)
    folder = tmp_path_factory.mktemp("operator")
    with monitored_operator(apiserver, folder, ready, refused, "--traces=otlp") as found:
        yield found


def test_probes_answer_and_leave_no_line_in_the_log(monitored: Monitored) -> None:
    before = monitored.log.read_text()
    assert [monitored.get(path) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2

    after = monitored.log.read_text()
    assert "healthz" not in after
    assert "readyz" not in after
    assert after.startswith(before)


def test_each_line_about_a_service_has_its_key(monitored: Monitored) -> None:
    lines = [json.loads(line) for line in monitored.log.read_text().splitlines()]

    about_services = {
        (line["namespace"], line["name"]) for line in lines if line["logger"] == "isvc_operator.controller.worker"
    }
    assert about_services == {(monitored.refused, "torchserve")}


def test_the_metrics_tell_what_the_operator_has_done(monitored: Monitored) -> None:
    samples = monitored.samples()

    def value(name: str, **labels: str) -> float:
        return samples[f"isvc_operator_{name}", tuple(sorted(labels.items()))]

    assert value("services", phase="Ready") == 1
    assert value("services", phase="Failed") == 1
    assert value("queue_retrying", result="refused") == 1
    assert value("queue_retrying", result="error") == 0
    assert value("leader") == 1
    assert value("reconcile_duration_seconds_count", result="success") >= 1
    assert value("reconcile_duration_seconds_count", result="refused") >= 1
    assert value("reconcile_duration_seconds_count", result="error") == 0
    assert value("reconcile_duration_seconds_count", result="unexpected") == 0
    assert value("reconcile_retries_total") >= 1
    assert value("api_requests_total", verb="create", code="201") >= 3
    assert value("api_requests_total", verb="list", code="200") >= 1
    assert value("api_requests_total", verb="watch", code="200") >= 1
    assert value("watch_starts_total", resource="pods") >= 2  # one in each namespace
    assert value("config_last_reload_successful") == 1
    assert ("process_resident_memory_bytes", ()) in samples


def test_the_condition_of_each_service_is_told_with_its_name(monitored: Monitored) -> None:
    told = [dict(labels) for name, labels in monitored.samples() if name == "isvc_operator_service_condition"]

    of_type_ready = [labels for labels in told if labels["type"] == "Ready"]
    assert {(one["namespace"], one["name"], one["status"], one["reason"]) for one in of_type_ready} == {
        (monitored.ready, "torchserve", "True", ""),
        (monitored.refused, "torchserve", "False", "ReconcileFailed"),
    }


def test_labels_have_few_values(monitored: Monitored) -> None:
    """Nothing that users write becomes a label, not a namespace, a name or a path, but for services' conditions."""
    others = [pairs for name, pairs in monitored.samples() if name != "isvc_operator_service_condition"]
    labels = {name for pairs in others for name, _ in pairs}

    assert labels == {"result", "le", "verb", "code", "resource", "phase", "version", "generation"}


def test_a_reconcile_is_a_trace_with_its_steps_and_the_requests_of_each(
    monitored: Monitored, collector: Collector
) -> None:
    created = f"create {path_of('Deployment', monitored.ready)}"
    reported = f"patch {path_of('InferenceService', monitored.ready, 'torchserve')}/status"

    found = [steps_of_trace(monitored, collector, request) for request in (created, reported)]

    until_applied = ["apply", "gather", "render", "resolve"]
    assert found == [
        (until_applied, {("apply", "create")}),
        (sorted([*until_applied, "observe", "write"]), {("write", "patch")}),
    ]


def steps_of_trace(monitored: Monitored, collector: Collector, request: str) -> tuple[list[str], set[tuple[str, str]]]:
    """The steps of the first reconcile that has sent a request, and which of them has sent what."""
    trace = eventually(lambda: collector.trace_with(request), f"the trace with {request} arrives")
    (whole,) = [span for span in trace if not span.parent_span_id]
    assert {item.key: item.value.string_value for item in whole.attributes} == {
        "k8s.namespace.name": monitored.ready,
        "isvc.name": "torchserve",
    }
    steps = {span.span_id: span.name for span in trace if span.parent_span_id == whole.span_id}
    requests = {(steps[span.parent_span_id], span.name.split()[0]) for span in trace if span.parent_span_id in steps}
    return sorted(steps.values()), requests


def test_the_operator_stays_alive_and_ready_while_an_optional_kind_comes_and_goes(
    apiserver: ApiServer, monitored: Monitored
) -> None:
    def watches(resource: str) -> bool:
        return ("isvc_operator_watch_silent_seconds", (("resource", resource),)) in monitored.samples()

    def states() -> list[int]:
        return [monitored.get(path)[0] for path in ("/healthz", "/readyz")]

    apiserver.kubectl("delete", "--filename=-", "--ignore-not-found", stdin=json.dumps(SCALED_OBJECTS))
    eventually(lambda: not watches("scaledobjects"), "no other test has left the kind")
    apiserver.kubectl("apply", "--filename=-", stdin=json.dumps(SCALED_OBJECTS))
    eventually(lambda: watches("scaledobjects") and states() == [200, 200], "the new kind is watched")
    apiserver.kubectl("delete", "--filename=-", stdin=json.dumps(SCALED_OBJECTS))

    eventually(lambda: not watches("scaledobjects"), "the kind is not watched any more")
    assert states() == [200, 200]
