"""The shipped alerts and the shipped dashboard ask for metrics that exist, and the docs explain the metrics."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from data_plane.payload_logger.queue import PayloadQueue
from data_plane.server.metrics import ServerMetrics
from isvc_operator.observe.pods import OUTAGES
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Snapshot
from mar_runtime.metrics.start import StartTimes
from tests.support.monitoring import ALERT_CASES, FOLDER, alerts, dashboard, dashboard_queries
from tests.support.source_tree import ROOT
from transformer_sdk.kserve.serving.metrics import HookMetrics

METRIC = re.compile(r"\b(?:isvc_operator|process|python|http|grpc|requests?|batch|batches|server)_\w+")
PAGE = (ROOT / "docs/operations.md").read_text()
OPERATOR = yaml.safe_load((ROOT / "manifests/base/operator.yaml").read_text())["spec"]["template"]


# What Prometheus stores of a metric, by its type.
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def exported() -> set[str]:
    text = Metrics().exposition(Snapshot()).decode()
    return {family.name + suffix for family in text_string_to_metric_families(text) for suffix in SUFFIXES[family.type]}


class Waiting:
    age_s = 0.0


WAITING = Waiting()  # a queue is reported as long as it exists


def servers_registry() -> CollectorRegistry:
    """All metrics that a server of ours may have, with a value, but for handlers' and the payload logger's."""
    metrics = ServerMetrics()
    metrics.observe("POST", "/predictions/{model}", 200, 0.1)
    metrics.observe_grpc("ModelInfer", "OK", 0.1)
    metrics.batches.of_model("m").report_age_of(WAITING)
    HookMetrics(metrics.registry).of_model("m")
    StartTimes(metrics.registry, 0.0).end("imports")
    return metrics.registry


def described(registry: CollectorRegistry) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The type and the labels of each metric, as a table of the docs has them."""
    families = list(registry.collect())
    assert [family.name for family in families if not family.samples] == []  # only those with a value show their labels
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            tuple(name for name in family.samples[0].labels if name != "le"),
        )
        for family in families
    }


def of_table(page: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = re.findall(r"^\| (`[a-z_`, ]+) \| (counter|gauge|histogram) \| ([a-z_`, ]*)\|", page, re.MULTILINE)
    return {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)))
        for names, kind, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }


@pytest.mark.parametrize("query", [*(rule["expr"] for rule in alerts()), *dashboard_queries()])
def test_a_query_asks_for_metrics_that_exist(query: str) -> None:
    names = set(METRIC.findall(query))
    assert names
    assert names - exported() - described(servers_registry()).keys() == set()


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_has_a_severity_a_summary_and_its_row_in_the_runbook(alert: dict[str, dict[str, str]]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"].keys() == {"summary", "description"}
    assert f"| `{alert['alert']}` |" in PAGE


def test_the_alert_of_services_that_stopped_serving_is_of_all_such_reasons() -> None:
    (query,) = [alert["expr"] for alert in alerts() if alert["alert"] == "InferenceServiceStoppedServing"]
    reasons = re.search(r'reason=~"([^"]+)"', query)

    assert reasons is not None
    assert tuple(reasons[1].split("|")) == OUTAGES


def alert_cases() -> list[dict[str, Any]]:
    return [case for test in yaml.safe_load(ALERT_CASES.read_text())["tests"] for case in test["alert_rule_test"]]


def test_each_alert_has_a_case_that_fires_it_and_one_that_must_not() -> None:
    tested = {(case["alertname"], bool(case["exp_alerts"])) for case in alert_cases()}

    assert tested == {(alert["alert"], fires) for alert in alerts() for fires in (True, False)}


def test_an_alert_about_a_service_is_called_so_and_has_its_namespace_and_name() -> None:
    fired = [(case["alertname"], alert["exp_labels"]) for case in alert_cases() for alert in case["exp_alerts"]]

    assert fired
    assert [
        name
        for name, labels in fired
        if name.startswith("InferenceService") != ({"namespace", "name"} <= labels.keys())
    ] == []


def test_the_docs_have_every_metric_of_ours() -> None:
    suffix = re.compile(r"_(bucket|count|sum)$")
    ours = {suffix.sub("", name) for name in exported() if name.startswith("isvc_operator_")}
    ours = {name for name in ours if not name.endswith("_created")}  # when a counter began
    documented = set(re.findall(r"^\| `(isvc_operator_\w+)", PAGE, re.MULTILINE))

    assert documented == ours


def test_the_docs_have_every_metric_of_a_server_with_its_type_and_labels() -> None:
    assert of_table((ROOT / "docs/batching.md").read_text()) == described(servers_registry())


def test_the_docs_have_every_metric_of_a_payload_logger() -> None:
    registry = CollectorRegistry()
    PayloadQueue(registry, "sink", 1)
    page = (ROOT / "docs/payload-logger.md").read_text()

    assert set(re.findall(r"`(payload_logger_\w+)", page)) == {
        family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()
    }


def test_each_panel_has_a_description_and_an_id_of_its_own() -> None:
    panels = dashboard()["panels"]

    assert [panel["title"] for panel in panels if not panel["description"]] == []
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_prometheus_finds_the_operators_port() -> None:
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())["spec"]
    (container,) = OPERATOR["spec"]["containers"]
    (port,) = container["ports"]

    assert monitor["selector"]["matchLabels"] == OPERATOR["metadata"]["labels"]
    assert [(item["port"], item["path"]) for item in monitor["podMetricsEndpoints"]] == [(port["name"], "/metrics")]
    assert OPERATOR["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
    }
    assert {"name": "HEALTH_PORT", "value": str(port["containerPort"])} in container["env"]


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    register_default_plugins()
    read = Dashboard.from_json(dashboard())
    written = json.loads(JSONEncoder(sort_keys=True).encode(read))

    assert lost(dashboard(), written) == []


def lost(given: Any, kept: Any, place: str = "dashboard") -> list[str]:
    """The places of what is given and not kept. Grafana's defaults may come on top."""
    if isinstance(given, dict) and isinstance(kept, dict):
        missing = [f"{place}.{name}" for name in given if name not in kept]
        return missing + [
            item for name in given if name in kept for item in lost(given[name], kept[name], f"{place}.{name}")
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [
            item
            for index, pair in enumerate(zip(given, kept, strict=True))
            for item in lost(*pair, f"{place}[{index}]")
        ]
    return [] if given == kept else [place]
