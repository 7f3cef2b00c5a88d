"""When a service counts as changed over."""

from __future__ import annotations

import pytest

from isvc.migrate.errors import MigrationFailed
from isvc.migrate.handover import hand_over
from isvc.migrate.objects import LiveObjects
from isvc.migrate.session import Session, Step, StepTaken
from tests.support.builders import Manifest, a_service_body
from tests.support.fakes import FakeKubeApi
from tests.unit.migrate.test_session import Clock


def a_service(**conditions: str) -> Manifest:
    return a_service_body(status={"conditions": [{"type": name, "status": is_} for name, is_ in conditions.items()]})


async def handed_over(service: Manifest) -> list[StepTaken]:
    api, clock, steps = FakeKubeApi(), Clock(), list[StepTaken]()
    api.put(service)
    await hand_over(Session(LiveObjects(api), steps.append, clock, clock.sleep, lambda: "now", 3.0), service, [])
    return steps


async def test_a_service_that_is_stopped_is_changed_over_at_once() -> None:
    assert await handed_over(a_service(Ready="False", Stopped="True")) == [
        StepTaken(Step.SERVICE_CHANGED_OVER, "models/torchserve is changed over, after 0 s", ["models/torchserve"])
    ]


async def test_a_service_that_does_not_get_ready_ends_the_change_over() -> None:
    with pytest.raises(MigrationFailed, match=r"^models/torchserve: after 3 s: the service is not Ready"):
        await handed_over(a_service(Ready="False"))
