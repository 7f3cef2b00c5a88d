"""The plan as it is printed, and what concerns the whole cluster."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.migrate.plan import Level, MigrationPlan, PlanLine, ServiceMigration, blocking, check_cluster, ok, warning


def a_manager(*flags: str) -> dict[str, Any]:
    containers = [{"name": "manager", "command": ["/manager"], "args": ["--metrics-addr=0", *flags]}, {"name": "proxy"}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def found(**fields: Any) -> tuple[PlanLine, ...]:
    known = {"manager": a_manager("--leader-elect"), "kserve_config": {}, "config": {}, "staying": {}}
    return check_cluster(**{**known, **fields})


def test_the_plan_has_a_line_for_each_finding_and_counts_services_by_their_worst() -> None:
    plan = MigrationPlan(
        cluster=(warning("2 InferenceGraph"),),
        services=(
            ServiceMigration("bank", "one", (ok("runtime: mine"), blocking("host a is not served any more"))),
            ServiceMigration("shop", "two", (ok("runtime: mine"),)),
        ),
    )

    assert plan.worst is Level.BLOCKING
    assert list(plan.lines()) == [
        "cluster",
        "  warning  2 InferenceGraph",
        "bank/one",
        "  ok       runtime: mine",
        "  blocking host a is not served any more",
        "shop/two",
        "  ok       runtime: mine",
        "2 services: 1 ok, 0 warning, 1 blocking",
    ]


@pytest.mark.parametrize("flag", ["--leader-elect", "--leader-elect=true"])
def test_a_manager_whose_controllers_can_be_paused_needs_no_attention(flag: str) -> None:
    assert found(manager=a_manager(flag)) == ()


def test_a_manager_whose_controllers_cannot_be_paused_blocks() -> None:
    assert found(manager=a_manager()) == (
        blocking(
            "Deployment kserve-controller-manager in namespace kserve runs without --leader-elect, by which its "
            "controllers are paused while its webhooks serve; add it"
        ),
    )


def test_without_a_manager_there_is_nothing_to_change_over_from() -> None:
    (only,) = found(manager=None)

    assert only.level is Level.BLOCKING


def test_settings_that_differ_from_kserves_are_named_by_key_and_field() -> None:
    kserves = {"ingress": '{"ingressDomain": "models.example.org"}', "_example": "{", "batcher": "{}"}

    assert found(kserve_config=kserves, config={}) == (
        warning(
            "ConfigMap inferenceservice-config of namespace kserve is not read; the operator's own has other values of "
            "ingress.ingressDomain"
        ),
    )


def test_a_config_map_that_is_not_valid_is_a_warning() -> None:
    (only,) = found(kserve_config={"ingress": "no JSON"})

    assert only.level is Level.WARNING


def test_objects_that_stay_with_kserve_are_counted() -> None:
    assert found(staying={"InferenceGraph": 2, "TrainedModel": 0}) == (
        warning(
            "2 InferenceGraph stay with KServe: they keep running, but KServe's manager acts on no change of them "
            "while it is stopped, and uninstalling KServe deletes them"
        ),
    )
