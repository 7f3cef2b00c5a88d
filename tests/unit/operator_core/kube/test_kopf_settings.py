"""How kopf is set up: what differs from its defaults, and which of its log lines are nobody else's."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import kopf
import pytest
from kopf._cogs.structs.references import Resource

from isvc_operator.api.kinds import KINDS
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.errors import ConfigError
from isvc_operator.kube.informer.kopf_settings import is_news, selector_of, use_settings
from isvc_operator.kube.informer.watching import OlderState
from isvc_operator.limits import WATCH_IDLE_SECONDS


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """The level of kopf's logger is the process's."""
    logger = logging.getLogger("kopf.objects")
    level = logger.level
    yield
    logger.setLevel(level)


def settings_of(settings: kopf.OperatorSettings) -> dict[str, Any]:
    return {
        f"{part.name}.{field.name}": getattr(getattr(settings, part.name), field.name)
        for part in dataclasses.fields(settings)
        for field in dataclasses.fields(getattr(settings, part.name))
        if field.name not in ("_executor", "executor")
    }


@pytest.mark.parametrize("notices_crds", [True, False])
def test_kopf_keeps_nothing_on_objects_posts_nothing_and_waits_for_no_peer(notices_crds: bool) -> None:
    settings = kopf.OperatorSettings()
    before = settings_of(settings)
    use_settings(settings, notices_crds=notices_crds)
    changed = {name: value for name, value in settings_of(settings).items() if value != before[name]}
    storages = [changed.pop(f"persistence.{name}_storage") for name in ("diffbase", "progress")]

    assert changed == {
        "persistence.finalizer": "isvc-operator.io/none",  # kopf removes its own where nothing needs it
        "posting.enabled": False,
        "peering.standalone": True,
        **({} if notices_crds else {"scanning.disabled": True}),
        "queueing.idle_timeout": 1.0,
        "watching.inactivity_timeout": WATCH_IDLE_SECONDS,
    }
    essence = kopf.BodyEssence({"metadata": {"labels": {"a": "b"}}})
    differences, progress = storages
    assert (differences.build(body=None), differences.fetch(body=None)) == (kopf.BodyEssence(), None)
    assert (progress.fetch(key="", body=None), progress.clear(essence=essence)) == (None, essence)
    nothing: Any = (differences.store, progress.store, progress.purge, progress.touch)
    assert [keep(body=None, patch=None) for keep in nothing] == [None] * 4


def test_only_children_and_pods_with_a_services_label_are_sent_by_the_api_server() -> None:
    settings = kopf.OperatorSettings()
    use_settings(settings)
    selected = {
        kind.plural: settings.watching.label_selectors.collect(Resource(*selector_of(kind)))
        for kind in KINDS
        if kind.watched
    }

    assert selected == {
        kind.plural: [LABEL_SERVICE] if kind.selected_by_label else [] for kind in KINDS if kind.watched
    }


@pytest.mark.parametrize(
    ("error", "news"),
    [(None, True), (ZeroDivisionError(), True), (ConfigError("wrong"), False), (OlderState("it was newer"), False)],
    ids=["no error", "a fault", "a wrong setting", "an older state"],
)
def test_the_traceback_of_an_error_that_is_reported_anyway_is_left_out(error: Exception | None, news: bool) -> None:
    info: Any = None if error is None else (type(error), error, None)
    record = logging.LogRecord("kopf", logging.ERROR, "", 0, "it has failed", (), info)

    assert is_news(record) is news


async def infinite_watch() -> AsyncIterator[None]:  # as kopf's is called
    try:
        yield
    finally:
        raise RuntimeError("generator didn't stop after athrow()")


async def ours() -> AsyncIterator[None]:
    try:
        yield
    finally:
        raise RuntimeError("a fault")


def test_that_a_generator_of_kopf_does_not_close_at_its_end_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def end(left: AsyncIterator[None]) -> None:
        await anext(left)

    for left in (infinite_watch(), ours()):
        asyncio.run(end(left))

    assert [is_news(record) for record in caplog.records] == [False, True]
