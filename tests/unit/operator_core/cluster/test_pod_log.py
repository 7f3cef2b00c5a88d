"""Lines of a container's log, as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from isvc_operator.cluster.pod_log import log_lines
from isvc_operator.kube.requests import ApiRequest, LogOptions
from isvc_operator.limits import LOG_LINE_CHARACTERS
from isvc_operator.manifests import ServiceKey
from isvc_operator.view.source import ContainerKey

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


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([f"{AT} one\n{AT} t".encode(), b"wo\r\n"], [(AT, "one"), (AT, "two")]),
        ([f"{AT} \n{AT}\n".encode()], [(AT, ""), (AT, "")]),
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

    assert [line async for line in log_lines(api, KEY, LogOptions(lines=10))] == lines


async def test_a_line_that_is_too_long_is_cut() -> None:
    api = Streaming(*[b"x" * LOG_LINE_CHARACTERS] * 9, b"\nnext\n")

    found = [text async for _, text in log_lines(api, KEY, LogOptions(lines=10))]

    assert found == ["x" * LOG_LINE_CHARACTERS, "next"]


async def test_what_is_asked_for() -> None:
    api = Streaming()
    options = LogOptions(lines=5, follow=True, previous=True, since_seconds=60)

    assert [line async for line in log_lines(api, KEY, options)] == []

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
