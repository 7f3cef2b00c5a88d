"""Lines of a container's log, as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from isvc.limits import LOG_LINE_CHARACTERS
from isvc.source.pod_log import log_lines
from isvc.view.source import ContainerKey, LogOptions
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.manifests import ServiceKey

KEY = ContainerKey(service=ServiceKey("models", "bert"), pod="bert-1", container="kserve-container")
AT = "2026-01-01T12:00:00.123456789Z"


class Streaming:
    """An API server whose log comes in these parts."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts
        self.asked: list[ApiRequest] = []

    async def send(self, request: ApiRequest) -> str:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)
        yield self._flow()

    async def _flow(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part

    async def still_runs(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([f"{AT} one\n{AT} t".encode(), b"wo\r\n"], [(AT, "one"), (AT, "two")]),
        ([f"{AT} \n{AT}\n".encode()], [(AT, ""), (AT, "")]),
        ([f"{AT} \r 50%".encode(), b"\r100%\n"], [(AT, "100%")]),
        (
            [b"unable to retrieve container logs\n", b"the end"],
            [(None, "unable to retrieve container logs"), (None, "the end")],
        ),
        ([f"{AT} \xff".encode("latin-1")], [(AT, "\ufffd")]),
        ([], []),
    ],
)
async def test_parts_become_lines_with_their_times(parts: list[bytes], lines: list[tuple[str | None, str]]) -> None:
    api = Streaming(*parts)

    assert [line async for line in log_lines(api, KEY, LogOptions(lines=10), api.still_runs)] == lines


async def test_a_line_that_is_too_long_is_cut() -> None:
    api = Streaming(*[b"x" * LOG_LINE_CHARACTERS] * 9, b"\nnext\n")

    found = [text async for _, text in log_lines(api, KEY, LogOptions(lines=10), api.still_runs)]

    assert found == ["x" * LOG_LINE_CHARACTERS, "next"]


async def test_what_is_asked_for() -> None:
    api = Streaming()
    options = LogOptions(lines=5, follow=True, previous=True, since_seconds=60)

    assert [line async for line in log_lines(api, KEY, options, api.still_runs)] == []

    (request,) = api.asked
    assert (request.path, dict(request.query)) == (
        "/api/v1/namespaces/models/pods/bert-1/log",
        {
            "container": "kserve-container",
            "timestamps": "true",
            "tailLines": "5",
            "follow": "true",
            "previous": "true",
            "sinceSeconds": "60",
        },
    )


class Cut:
    """An API server whose log comes in several responses, which end before the container does; ``…`` in a line."""

    def __init__(self, *responses: list[str] | KubeError) -> None:
        self._responses = [*responses]
        self.asked: list[dict[str, str]] = []

    async def send(self, request: ApiRequest) -> str:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(dict(request.query))
        response = self._responses.pop(0)
        if isinstance(response, KubeError):
            raise response
        yield self._flow(response)

    async def _flow(self, lines: list[str]) -> AsyncIterator[bytes]:
        for line in lines:
            yield (line.removesuffix("…") if line.endswith("…") else f"{line}\n").encode()

    async def still_runs(self) -> bool:
        return bool(self._responses)


def at(nanoseconds: int, text: str) -> str:
    return f"2026-01-01T12:00:00.{nanoseconds:09d}Z {text}"


async def test_a_log_whose_connection_ends_goes_on_with_the_next_line() -> None:
    api = Cut(
        [at(1, "one"), at(2, "two"), at(2, "three")],
        KubeError(0, "no response"),
        [at(1, "one"), at(2, "two"), at(2, "three"), at(2, "four"), at(3, "five")],
        [at(3, "five"), "a text without a time", at(700, "six")],
    )
    options = LogOptions(lines=3, follow=True, since_seconds=60)

    found = [text async for _, text in log_lines(api, KEY, options, api.still_runs)]

    assert found == ["one", "two", "three", "four", "five", "six"]
    first, *others = api.asked
    assert (first["tailLines"], first["sinceSeconds"]) == ("3", "60")
    assert [request["sinceTime"] for request in others] == [at(2, "").strip()] * 2 + [at(3, "").strip()]
    assert all("sinceSeconds" not in request and request["tailLines"] == "100000" for request in others)


async def test_a_line_that_was_cut_is_whole_when_the_log_goes_on() -> None:
    api = Cut([at(1, "one"), at(2, "tw…")], [at(1, "one"), at(2, "two"), at(3, "no end of a line…")])

    found = [text async for _, text in log_lines(api, KEY, LogOptions(lines=3, follow=True), api.still_runs)]

    assert found == ["one", "two", "no end of a line"]


async def test_a_log_that_has_said_nothing_yet_is_asked_for_again_as_before() -> None:
    api = Cut([], [at(1, "one")])

    found = [text async for _, text in log_lines(api, KEY, LogOptions(lines=3, follow=True), api.still_runs)]

    assert (found, api.asked[0]) == (["one"], api.asked[1])


@pytest.mark.parametrize("error", [KubeError(403, "no"), KubeError(0, "gone")])
async def test_a_log_that_is_refused_or_whose_container_has_ended_is_an_error(error: KubeError) -> None:
    api = Cut([at(1, "one")], error)

    with pytest.raises(KubeError, match=str(error)):
        async for _ in log_lines(api, KEY, LogOptions(lines=3, follow=True), api.still_runs):
            pass
