"""Waiting for what a step needs, and requests that webhooks refuse while they start."""

from __future__ import annotations

import pytest

from isvc.migrate.errors import MigrationFailed
from isvc.migrate.objects import LiveObjects
from isvc.migrate.session import Session
from isvc_operator.kube.errors import KubeError, RequestRefused
from tests.support.fakes import FakeKubeApi

NO_WEBHOOK = KubeError(500, "failed calling webhook: connection refused")


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def a_session(patience: float = 3.0) -> Session:
    clock = Clock()
    return Session(LiveObjects(FakeKubeApi()), lambda _: None, clock, clock.sleep, lambda: "now", patience)


class Requests:
    """Answers with each of the errors, then with success."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)
        self.sent = 0

    async def send(self) -> None:
        self.sent += 1
        if self.errors:
            raise self.errors.pop(0)


async def test_a_request_is_sent_again_while_a_webhook_does_not_answer() -> None:
    requests = Requests(NO_WEBHOOK, NO_WEBHOOK)

    await a_session().insist("it cannot be applied", requests.send)

    assert requests.sent == 3


async def test_a_request_that_is_refused_is_sent_once() -> None:
    requests = Requests(RequestRefused(422, "the field is invalid"))

    with pytest.raises(RequestRefused, match="the field is invalid"):
        await a_session().insist("it cannot be applied", requests.send)

    assert requests.sent == 1


async def test_patience_ends_with_what_was_waited_for_and_the_last_reason() -> None:
    with pytest.raises(MigrationFailed) as caught:
        await a_session().insist("it cannot be applied", Requests(*[NO_WEBHOOK] * 99).send)

    assert str(caught.value) == "after 3 s: it cannot be applied: failed calling webhook: connection refused"
