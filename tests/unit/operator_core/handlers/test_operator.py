"""What kopf calls of the operator, and what it is told to watch."""

from __future__ import annotations

import asyncio
import getpass
import json
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import click
import kopf
import pytest
from kopf._cogs.aiokits import aiotasks

from isvc_operator.api.kinds import KINDS
from isvc_operator.errors import ConfigError
from isvc_operator.handlers import operator
from isvc_operator.handlers.running import OperatorOptions
from isvc_operator.handlers.watches import Affected
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.informer.kopf_settings import selector_of
from isvc_operator.kube.informer.scope import Scope
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import Watching
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.telemetry.tracing import NoTracer, Tracer


def test_kopf_watches_each_kind_that_is_to_be_watched_and_nothing_that_it_would_write_for() -> None:
    registry = kopf.get_default_registry()
    ours = [item for item in registry._watching.get_all_handlers() if item.fn is operator.changed]
    selectors = [item.selector for item in ours]

    assert {(item.group, item.version, item.any_name) for item in selectors if item} == {
        selector_of(kind) for kind in KINDS if kind.watched
    }
    others = (registry._indexing, registry._spawning, registry._changing, registry._webhooks)
    assert [item.fn.__module__ for part in others for item in part.get_all_handlers()] == []


@pytest.mark.parametrize(("variable", "named"), [("team", ()), ("", ("team",)), ("team", ("other",))])
async def test_kopf_and_the_variable_have_to_name_the_same_namespaces(
    monkeypatch: pytest.MonkeyPatch, variable: str, named: tuple[str, ...]
) -> None:
    monkeypatch.setenv("WATCH_NAMESPACES", variable)
    with click.Context(click.Command("run")) as context:
        context.params["namespaces"] = named
        with pytest.raises(ConfigError, match="WATCH_NAMESPACES go together"):
            await operator.start(kopf.OperatorSettings(), kopf.Memo())


async def test_what_has_ended_the_operator_is_raised_at_its_end() -> None:
    ended = list[str]()

    async def end() -> None:
        ended.append("end")

    error = ConfigError("it cannot go on")
    await operator.end(memo=kopf.Memo(running=SimpleNamespace(end=end, error=None)))
    with pytest.raises(ConfigError) as caught:
        await operator.end(memo=kopf.Memo(running=SimpleNamespace(end=end, error=error)))

    assert (ended, caught.value) == (["end", "end"], error)


async def test_an_operator_that_cannot_start_ends_before_anything_is_watched() -> None:
    before = asyncio.all_tasks()
    with pytest.raises(ConfigError, match=r"^kubeconfig /nonexistent cannot be used"):
        await operator.run(OperatorOptions("/nonexistent"), NoTracer())

    assert asyncio.all_tasks() == before


class Empty:
    """An API server without objects; `watched` is set when the pods are."""

    def __init__(self) -> None:
        self.watched = asyncio.Event()

    async def send(self, _: ApiRequest) -> str:
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": []})

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        if request.path == "/api/v1/pods":
            self.watched.set()
        yield self._nothing()

    async def _nothing(self) -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""


@dataclass
class Running:
    """An operator that only watches."""

    api: Empty
    stop: Any = None
    error: Any = None

    def __call__(self, _: OperatorOptions, stop: Callable[[], None], __: Tracer) -> Running:
        session = WatchSession(Watching(self.api, lambda: 0.0, lambda: 0.0), Affected(Cache(), list, list))
        self.replica = SimpleNamespace(session=session, scope=Scope())
        self.stop = stop
        return self

    async def start(self) -> None:
        return

    async def end(self) -> None:
        return


def nobody() -> str:
    """As for the user of a pod, whose number is in no list."""
    raise KeyError("getpwuid(): uid not found: 1000")


@pytest.mark.parametrize("by", ["a signal", "what runs beside the watches"])
async def test_when_it_is_stopped_kopf_waits_for_nothing_that_is_left(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """It gives what it has not ended itself some seconds, which a task that waits for a flag would take."""
    running = Running(Empty())
    monkeypatch.setattr(operator, "RunningOperator", running)
    left, wait = list[str](), aiotasks.wait

    async def recorded(tasks: Any, **options: Any) -> Any:
        done, pending = await wait(tasks, **options)
        if options.get("timeout") == 5:  # of those that are left
            left.extend(task.get_name() for task in pending)
        return done, pending

    monkeypatch.setattr(aiotasks, "wait", recorded)
    monkeypatch.setattr(getpass, "getuser", nobody)
    task = asyncio.create_task(operator.run(OperatorOptions(None), NoTracer()))
    await running.api.watched.wait()
    if by == "a signal":
        assert threading.current_thread() is threading.main_thread()  # else kopf leaves signals alone
        signal.raise_signal(signal.SIGTERM)
    else:
        running.stop()
    await task

    assert left == []
