"""What is seen of a service says the same as its conditions, whatever state it is in."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from isvc.limits import SEEN_ITEMS, SEEN_PODS
from isvc.view.json_shape import as_json
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc.view.values import (
    HealthStatus,
    ServiceView,
)
from isvc_operator.limits import MESSAGE_BYTES
from isvc_operator.observe.component import explain
from isvc_operator.observe.pods import PodFailure
from tests.support.builders import (
    a_crashed_pod,
    a_pod,
    a_ready_pod,
    a_service_body,
)
from tests.support.failing_pods import FAILING_PODS, POD
from tests.support.related_objects import a_related, an_event


def ready_condition(service: ServiceView) -> tuple[str, str]:
    found = next(item for item in service.conditions if item.type == "Ready")
    return found.reason, found.message


@pytest.mark.parametrize(("pod", "failure"), FAILING_PODS.values(), ids=FAILING_PODS.keys())
def test_a_failing_pod_is_seen_with_the_words_of_the_condition(pod: dict[str, Any], failure: PodFailure) -> None:
    logs = {(POD, failure.container or ""): "first line\nlast line"} if failure.has_log else {}

    service = view_of(a_related(pod, logs=logs))

    found = service.failure
    assert found is not None
    assert (found.reason, found.cause, found.location, found.exit_code) == (
        failure.reason,
        failure.cause,
        failure.location,
        failure.exit_code,
    )
    assert failure.fix in found.fix
    assert found.fix
    assert found.log == ("first line\nlast line" if failure.has_log else "")
    assert ready_condition(service) == (failure.reason, explain(failure, found.log))
    assert service.health is service.components[0].health is service.components[0].pods[0].health is HealthStatus.FAILED
    assert service.components[0].failure == service.components[0].pods[0].failure == found


# --- whatever the objects are ------------------------------------------------------------------------

_ODD: tuple[Any, ...] = (None, 0, -1, 2**80, True, "", "x", "\x1b[31m\n", "\ud800", [], [None], {}, {"a": {}}, 1.5)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a JSON value with each of its keys or indexes."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def test_no_object_is_too_odd_to_be_seen() -> None:
    event = an_event("FailedMount", 'secret "keys" not found', type_="Warning")
    wholes = [a_related(events=[event]), a_related(a_crashed_pod(), events=[event]), a_related(a_pod(), events=[event])]
    chance = random.Random(0)
    for _ in range(1000):
        whole = chance.choice(wholes)
        parts: dict[str, Any] = copy.deepcopy(
            {
                "service": whole.service,
                "children": [*whole.children],
                "pods": [*whole.pods],
                "events": [*whole.events],
                "runtimes": [*whole.runtimes],
            }
        )
        for _ in range(chance.randrange(1, 4)):
            container, key = chance.choice([item for item in places(parts) if item[0] is not parts])
            container[key] = chance.choice(_ODD)
        json.dumps(as_json(view_of(Related(**parts, logs=whole.logs))))


def test_only_so_many_pods_of_a_component_are_seen() -> None:
    pods = [a_ready_pod(f"pod-{number}") for number in range(SEEN_PODS + 1)]

    assert len(view_of(a_related(*pods)).components[0].pods) == SEEN_PODS


def test_only_so_many_items_of_a_list_are_seen_and_so_much_of_a_text() -> None:
    condition = {"type": "Odd", "status": "True", "message": "x" * 2 * MESSAGE_BYTES}
    body = a_service_body(status={"conditions": [condition] * (SEEN_ITEMS + 1)})

    service = view_of(Related(service=body))

    assert len(service.conditions) == SEEN_ITEMS
    assert len(service.conditions[0].message.encode()) == MESSAGE_BYTES
