"""An operator that is killed, as by SIGKILL, at one of its writes: `python -m … POINT FLAG…`.

POINT is `before-N` or `after-N`: the write with this number, from 1, is not sent, or has just arrived.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from isvc_operator.kube.client import KubernetesApi
from isvc_operator.kube.requests import ApiRequest

moment, _, number = sys.argv.pop(1).partition("-")
left = int(number)
open_response = KubernetesApi._open


async def dying_open(self: KubernetesApi, request: ApiRequest, seconds: float | None) -> Any:
    global left
    left -= request.method != "GET" and "/authorization.k8s.io/" not in request.path
    last = left == 0
    left -= last
    if last and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    response = await open_response(self, request, seconds)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    return response


KubernetesApi._open = dying_open  # type: ignore[method-assign]

runpy.run_module("isvc_operator", run_name="__main__")
