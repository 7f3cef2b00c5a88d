"""The shipped alerts and the shipped dashboard."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.support.source_tree import ROOT

FOLDER = ROOT / "manifests" / "monitoring"
ALERT_CASES = ROOT / "tests" / "e2e" / "programs" / "alerts.yaml"
"""promtool's tests of the alerts."""


def rule_groups() -> list[dict[str, Any]]:
    """The groups of the PrometheusRule, as a rule file has them."""
    groups: list[dict[str, Any]] = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())["spec"]["groups"]
    return groups


def alerts() -> list[dict[str, Any]]:
    """The alerts of all groups."""
    return [rule for group in rule_groups() for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return found


def dashboard_queries() -> list[str]:
    """The queries of all panels."""
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
