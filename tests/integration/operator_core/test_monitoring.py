"""What the operator reports of itself, read by a real Prometheus, with the shipped alerts and the shipped dashboard."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from isvc_operator.kube.requests import path_of
from tests.integration.operator_core.conftest import RUNTIME, new_namespace
from tests.integration.operator_core.test_autoscaling import SCALED_OBJECTS
from tests.support.apiserver import ApiServer
from tests.support.monitoring import dashboard_queries, rule_groups
from tests.support.object_stores.programs import listening
from tests.support.operator_process import operator
from tests.support.otlp_collector import Collector, collecting
from tests.support.ports import free_port
from tests.support.tree import ROOT
from tests.support.waiting import eventually

ANSWER_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class Monitored:
    """An operator with a service that is ready and one that is refused."""

    port: int
    log: Path
    ready: str
    refused: str

    def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The metrics: values by name and labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (item.name, tuple(sorted(item.labels.items()))): item.value
            for family in families
            for item in family.samples
        }


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
    apiserver.kubectl("apply", f"--filename={RUNTIME}")
    log, port = tmp_path_factory.mktemp("operator") / "operator.log", free_port()
    ready, refused = new_namespace(apiserver), new_namespace(apiserver)
    # Other tests of this API server have services, too.
    watched = (f"--namespace={ready.name}", f"--namespace={refused.name}")
    with operator(apiserver, log, f"--health-port={port}", "--log-format=json", "--traces=otlp", *watched):
        found = Monitored(port, log, ready.name, refused.name)
        eventually(lambda: found.get("/readyz")[0] == 200, "the operator is ready", otherwise=log.read_text)
        ready.apply_story()
        ready.play_finished_rollout()
        ready.wait_for_condition("Ready", "True")
        # Its Service is someone else's, so the reconcile fails and is retried.
        refused.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "torchserve-predictor"},
                "spec": {"ports": [{"name": "mine", "port": 80, "targetPort": 9}]},
            }
        )
        refused.apply_story()
        refused.wait_for_condition("Ready", "False")
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
    assert value("queue_retrying") == 1
    assert value("leader") == 1
    assert value("reconcile_duration_seconds_count", result="success") >= 1
    assert value("reconcile_duration_seconds_count", result="error") >= 1
    assert value("reconcile_duration_seconds_count", result="unexpected") == 0
    assert value("reconcile_retries_total") >= 1
    assert value("api_requests_total", verb="create", code="201") >= 3
    assert value("api_requests_total", verb="list", code="200") >= 1
    assert value("api_requests_total", verb="watch", code="200") >= 1
    assert value("watch_starts_total", resource="pods") >= 2  # one in each namespace
    assert ("process_resident_memory_bytes", ()) in samples


def test_labels_have_few_values(monitored: Monitored) -> None:
    """Nothing that users write becomes a label: not a namespace, a name or a path."""
    labels = {name for _, pairs in monitored.samples() for name, _ in pairs}

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


@pytest.fixture(scope="module")
def prometheus(monitored: Monitored, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has scraped the operator and evaluates the shipped rules."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    built = ["bash", ROOT / "tests/cluster/program", "prometheus"]
    program = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    target = {"targets": [f"127.0.0.1:{monitored.port}"], "labels": {"pod": "isvc-operator-0"}}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "isvc-operator", "static_configs": [target]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    command = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    address = f"http://127.0.0.1:{port}/api/v1"
    with listening(command, port, folder / "log"):
        # Rates need two samples.
        eventually(
            lambda: asked(address, "query", query="count_over_time(isvc_operator_leader[1m]) > 2")["result"],
            "Prometheus has scraped the operator",
            otherwise=(folder / "log").read_text,
        )
        yield address


def asked(address: str, path: str, **query: str) -> Any:
    """The data of Prometheus' answer; an HTTPError if it refuses the query."""
    url = f"{address}/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 503:  # it starts
                raise AssertionError(f"{query}: {error.read().decode()}") from error
        return {"result": []}


def test_prometheus_evaluates_every_alert(prometheus: str) -> None:
    def evaluated() -> list[dict[str, Any]] | None:
        rules = [rule for group in asked(prometheus, "rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else None

    rules = eventually(evaluated, "the rules are evaluated")

    assert {rule["name"]: (rule["health"], rule.get("lastError")) for rule in rules} == {
        rule["alert"]: ("ok", None) for group in rule_groups() for rule in group["rules"]
    }
    # One reconcile fails again and again, and one service is not ready.
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} == {
        "IsvcOperatorReconcilesFail",
        "InferenceServicesFailed",
    }


def test_every_query_of_the_dashboard_has_data(prometheus: str) -> None:
    empty = [
        query
        for query in dashboard_queries()
        if not asked(prometheus, "query", query=query.replace("$__rate_interval", "1m"))["result"]
    ]

    assert empty == []
