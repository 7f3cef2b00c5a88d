"""What the operator reports of itself, read by a real Prometheus, with the shipped alerts and the shipped dashboard."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.monitored_operator import Monitored, monitored_operator
from tests.support.monitoring import dashboard_queries, rule_groups
from tests.support.namespace import Namespace
from tests.support.object_stores.programs import listening
from tests.support.ports import free_port
from tests.support.source_tree import ROOT
from tests.support.waiting import eventually

ANSWER_TIMEOUT = 10.0  # seconds


@pytest.fixture(scope="module")
def monitored(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    namespaces = [Namespace(apiserver, name) for name in ("monitored-ready", "monitored-refused")]
    for namespace in namespaces:
        apiserver.create_namespace(namespace.name)
    with monitored_operator(apiserver, tmp_path_factory.mktemp("operator"), *namespaces) as found:
        yield found


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
    # One service is not ready: an object of its user has the name of its Service.
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} == {"InferenceServicesFailed"}


def test_every_query_of_the_dashboard_has_data(prometheus: str) -> None:
    empty = [
        query
        for query in dashboard_queries()
        if not asked(prometheus, "query", query=query.replace("$__rate_interval", "1m"))["result"]
    ]

    assert empty == []
