"""The logs of a service's containers: in the order of their times, and as they come."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from isvc.commands.seen.follow import LogLine, NoSuchContainer, Wanted, follow, past_lines
from isvc.view.source import ContainerKey, LogOptions, Related, ServiceRequest, ServiceResponse
from isvc_operator.kube.errors import KubeError
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_container, a_pod, an_initializer, ended, waiting
from tests.support.failing_pods import POD
from tests.support.related_objects import a_problem_of, a_related

KEY = ServiceKey("models", "torchserve")


@dataclass
class Source:
    """A service whose logs are these lines by pod and container, each with its time."""

    service: Related
    logs: Mapping[tuple[str, str], Sequence[tuple[str, str]]] = field(default_factory=dict)
    changed: asyncio.Queue[frozenset[ServiceKey]] = field(default_factory=asyncio.Queue)
    asked: list[tuple[str, str, int, bool]] = field(default_factory=list)
    open: int = 0

    def keys(self) -> Sequence[ServiceKey]:
        return [KEY]

    def related(self, key: ServiceKey) -> Related | None:
        return self.service if key == KEY else None

    def address(self, key: ServiceKey) -> str:
        return ""

    async def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        while True:
            yield await self.changed.get()

    def hidden(self) -> Sequence[str]:
        return []

    async def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        self.asked.append((key.pod, key.container, options.lines, options.previous))
        self.open += 1
        try:
            for at, text in self.logs.get((key.pod, key.container), ()):
                if text == "refused":
                    raise KubeError(404, "pods not found")
                yield at, text
        finally:
            self.open -= 1

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        raise NotImplementedError

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        raise NotImplementedError


LOGS = {
    (POD, "storage-initializer"): [("01", "copying"), ("03", "copied")],
    (POD, "kserve-container"): [("02", "starting"), ("04", "ready")],
}


@asynccontextmanager
async def following(source: Source, wanted: Wanted) -> AsyncIterator[asyncio.Queue[LogLine]]:
    lines: asyncio.Queue[LogLine] = asyncio.Queue()
    task = asyncio.create_task(follow(source, KEY, wanted, lines.put_nowait))
    yield lines
    task.cancel()


def line(at: str, container: str, text: str, pod: str = POD) -> LogLine:
    return LogLine(at=at, pod=pod, container=container, text=text)


async def test_lines_of_all_containers_are_in_the_order_of_their_times() -> None:
    assert await past_lines(Source(a_related(), LOGS), KEY, Wanted()) == [
        line("01", "storage-initializer", "copying"),
        line("02", "kserve-container", "starting"),
        line("03", "storage-initializer", "copied"),
        line("04", "kserve-container", "ready"),
    ]


async def test_a_log_that_cannot_be_read_is_named_and_the_others_are_printed() -> None:
    logs = {**LOGS, (POD, "storage-initializer"): [("01", "refused")]}

    assert await past_lines(Source(a_related(), logs), KEY, Wanted()) == [
        line("", "storage-initializer", "isvc: the log cannot be read: pods not found"),
        line("02", "kserve-container", "starting"),
        line("04", "kserve-container", "ready"),
    ]


async def test_logs_of_which_none_can_be_read_are_an_error() -> None:
    logs = {place: [("01", "refused")] for place in LOGS}

    with pytest.raises(KubeError, match="pods not found"):
        await past_lines(Source(a_related(), logs), KEY, Wanted())


async def test_of_previous_instances_only_those_that_there_are_are_read() -> None:
    crashed = a_container(state=waiting("CrashLoopBackOff"), before=ended(1))
    source = Source(a_related(a_pod(initializer=an_initializer(), containers=[crashed])), LOGS)

    await past_lines(source, KEY, Wanted(previous=True))

    assert source.asked == [(POD, "kserve-container", 100, True)]


@pytest.mark.parametrize(
    ("related", "wanted", "message"),
    [
        (a_problem_of("NoSupportingRuntime", "none"), Wanted(), "has no pods; isvc diagnose torchserve says why"),
        (a_related(), Wanted(container="x"), "the containers storage-initializer, kserve-container"),
        (a_related(), Wanted(component="transformer"), "has the components predictor with pods"),
        (a_related(), Wanted(previous=True), "no container has been restarted"),
    ],
)
async def test_without_a_log_it_is_said_what_there_is(related: Related, wanted: Wanted, message: str) -> None:
    with pytest.raises(NoSuchContainer, match=message):
        await past_lines(Source(related), KEY, wanted)


async def test_a_log_that_ends_by_an_error_says_so_and_the_others_go_on() -> None:
    source = Source(a_related(), {**LOGS, (POD, "storage-initializer"): [("01", "refused")]})
    async with following(source, Wanted()) as lines:
        found = [await lines.get() for _ in range(3)]

    assert {(item.container, item.text) for item in found} == {
        ("storage-initializer", "isvc: the log ends here: pods not found"),
        ("kserve-container", "starting"),
        ("kserve-container", "ready"),
    }


async def test_a_log_is_closed_when_nobody_takes_its_lines() -> None:
    source = Source(a_related(), LOGS)
    gc.disable()  # which would close it as well, some time
    try:
        with pytest.raises(ExceptionGroup) as raised:
            await follow(source, KEY, Wanted(), broken)
    finally:
        gc.enable()

    assert (raised.group_contains(BrokenPipeError), source.open) == (True, 0)


def broken(_: LogLine) -> None:
    raise BrokenPipeError
