"""Which runtime serves a service, and why that one."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.view.runtime import runtime_of
from isvc.view.shapes import well_formed
from isvc.view.source import Related
from isvc.view.values import RuntimeView
from isvc_operator.api.names import ANNOTATION_RUNTIME, ANNOTATION_YIELDS
from tests.support.builders import a_format, a_runtime_body, a_service_body

SERVES = "serves model format 'pytorch' with protocol v1"
ONE = a_runtime_body("one")


def seen(service: dict[str, Any], *runtimes: dict[str, Any]) -> RuntimeView | None:
    return runtime_of(well_formed(Related(service=service, runtimes=runtimes)))


@pytest.mark.parametrize(
    ("service", "runtimes", "why"),
    [
        (a_service_body(), [ONE], f"the only runtime that {SERVES}"),
        (a_service_body(model={"runtime": "one"}), [ONE], "named by spec.predictor.model.runtime"),
        (
            a_service_body(annotations={ANNOTATION_RUNTIME: "one"}),
            [ONE],
            f"named by the annotation {ANNOTATION_RUNTIME}",
        ),
        (
            a_service_body(),
            [
                a_runtime_body("one", formats=[a_format(priority=2)]),
                a_runtime_body("two", formats=[a_format(priority=1)]),
            ],
            f"{SERVES}, like two; it has the highest priority, 2",
        ),
        (
            a_service_body(),
            [ONE, a_runtime_body("two", metadata_annotations={ANNOTATION_YIELDS: "true"})],
            f"{SERVES}, like two; two yields to others",
        ),
        (
            a_service_body(model={"protocolVersion": "v2"}),
            [a_runtime_body("one", protocols=["v1", "v2"]), a_runtime_body("two", protocols=["v2"])],
            "serves model format 'pytorch' with protocol v2, like two; it has the lowest protocol, v1",
        ),
        (
            a_service_body(),
            [ONE, a_runtime_body("two", created="2025-01-01T00:00:00Z"), {"kind": "ClusterServingRuntime"}],
            f"{SERVES}, like two; it is the newest, or the first by its name",
        ),
    ],
)
def test_a_runtime_is_chosen_because(service: dict[str, Any], runtimes: list[dict[str, Any]], why: str) -> None:
    assert seen(service, *runtimes) == RuntimeView(name="one", cluster_wide=True, why=why)


def test_a_runtime_of_the_namespace_comes_first() -> None:
    own = a_runtime_body("own", namespace="models")

    assert seen(a_service_body(), ONE, own) == RuntimeView(
        name="own", cluster_wide=False, why=f"the only runtime of the namespace that {SERVES}"
    )


def test_the_runtime_of_the_status_is_shown_while_another_one_would_be_chosen() -> None:
    service = a_service_body(status={"servingRuntimeName": "before"})

    assert seen(service, ONE) == RuntimeView(name="before", why="chosen when the pods were last rolled out")


@pytest.mark.parametrize(
    "service",
    [a_service_body(model={"runtime": "none"}), a_service_body(model=None, predictor={"containers": [{"image": "x"}]})],
)
def test_there_is_no_runtime(service: dict[str, Any]) -> None:
    assert seen(service, ONE) is None
