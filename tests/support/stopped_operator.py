"""An operator that stops itself, as by SIGSTOP, at a point of its first write: `python -m … POINT FLAG…`.

POINT is `before-send` (the write is decided on, and nothing of it is sent) or `before-check` (it is about to be sent,
with a connection that is open; the fence is checked next).
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from aiohttp.http_writer import StreamWriter

from isvc_operator.kube.client import KubernetesApi
from isvc_operator.kube.requests import ApiRequest

point = sys.argv.pop(1)
stopped = False


def stop_once(method: str, target: str) -> None:
    global stopped
    if not stopped and method == "POST" and "/deployments" in target:
        stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)


if point == "before-send":
    open_response = KubernetesApi._open

    async def stopping_open(self: KubernetesApi, request: ApiRequest, seconds: float | None) -> Any:
        stop_once(request.method, request.path)
        return await open_response(self, request, seconds)

    KubernetesApi._open = stopping_open  # type: ignore[method-assign]
else:
    write_headers = StreamWriter.write_headers

    async def stopping_headers(self: StreamWriter, status_line: str, headers: Any) -> None:
        await write_headers(self, status_line, headers)
        stop_once(*status_line.split(" ")[:2])

    StreamWriter.write_headers = stopping_headers  # type: ignore[method-assign]

runpy.run_module("isvc_operator", run_name="__main__")
