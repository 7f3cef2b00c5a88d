"""What the variables of the operator say, for a start by `kopf run`, and how long its end takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isvc_operator.errors import ConfigError
from isvc_operator.handlers.running import OperatorOptions, RunningOperator, options_in
from isvc_operator.telemetry.tracing import NoTracer

PAGE = Path(__file__).parents[4] / "docs/operations.md"


def test_each_variable_is_an_option() -> None:
    environment = {
        "KUBECONFIG": "/kube/config",
        "WATCH_NAMESPACES": "blue,green,",
        "CONFIG_DIR": "/etc/isvc",
        "HEALTH_PORT": "8081",
        "PARALLEL": "4",
        "POD_NAMESPACE": "here",
        "LEADER_ELECT": "true",  # of `isvc operator` alone
    }

    assert options_in(environment) == OperatorOptions(
        kubeconfig="/kube/config",
        namespaces=("blue", "green"),
        config_dir=Path("/etc/isvc"),
        health_port=8081,
        parallel=4,
        home="here",
    )


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "not set"])
def test_without_variables_the_whole_cluster_is_watched_with_the_pods_account(empty: bool) -> None:
    names = ("KUBECONFIG", "WATCH_NAMESPACES", "CONFIG_DIR", "HEALTH_PORT", "PARALLEL", "POD_NAMESPACE")

    assert options_in(dict.fromkeys(names, "") if empty else {}) == OperatorOptions(None, home="isvc-system")


@pytest.mark.parametrize("name", ["HEALTH_PORT", "PARALLEL"])
@pytest.mark.parametrize("text", ["many", "-1", "1.5", "²"])
def test_a_number_that_is_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is '{text}'; set it to a number$"):
        options_in({name: text})


async def test_reconciles_that_do_not_end_are_cut_off_after_the_time_that_the_page_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    async def wait(tasks: Any, *, timeout: float) -> tuple[set[Any], set[Any]]:
        waited.append(timeout)
        return set(), set(tasks)

    monkeypatch.setattr(asyncio, "wait", wait)
    running = RunningOperator(OperatorOptions(None), lambda: None, NoTracer())
    running.replica = SimpleNamespace(stop=lambda: None, leads=True)  # type: ignore[assignment]
    running._reconciling = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]

    await running.end()

    assert running._reconciling.cancelled()
    assert f"for at most {waited.pop():.0f} seconds. Then it ends without a release" in PAGE.read_text()
