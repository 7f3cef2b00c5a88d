"""A server of models as it is assembled, on a real socket."""

from __future__ import annotations

import asyncio

import pytest

from data_plane.model_server.life import open_port
from data_plane.model_server.serving import serve
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import serving
from tests.support.listeners import listening_on
from tests.unit.endpoints.asking import RecordingModel


async def test_kserves_variables_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CE_MERGE": "true", "CE_TYPE": "scored", "CE_SOURCE": "/models"}.items():
        monkeypatch.setenv(name, value)
    headers = {
        "host": "x", "content-length": "17", "connection": "close",
        "ce-specversion": "1.0", "ce-id": "42", "ce-source": "/camera", "ce-type": "image", "ce-subject": "cat",
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    ended = asyncio.get_running_loop().create_future()
    with open_port("127.0.0.1", 0) as listener:
        server = asyncio.create_task(
            serve(listening_on(listener), serving(RecordingModel()), ServerMetrics(), must_not_end=[ended])
        )
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(f'POST /v1/models/m:predict HTTP/1.1\r\n{lines}\r\n{{"instances":[1]}}'.encode())
        answer = (await reader.read()).decode()
        writer.close()
        ended.set_result(None)
        await server

    told = dict(line.split(": ", 1) for line in answer.split("\r\n") if line.startswith("ce-"))
    told.pop("ce-time")
    assert told.pop("ce-id") != "42"
    assert told == {
        "ce-specversion": "1.0",
        "ce-source": "/models",
        "ce-type": "scored",
        "ce-subject": "cat",
    }
