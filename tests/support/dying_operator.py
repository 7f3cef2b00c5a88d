"""An operator that is killed, as by SIGKILL, at one of its writes: `python -m … POINT FLAG…`.

POINT is `before-N` or `after-N`: the write with this number, from 1, is not sent, or has just arrived.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from kubernetes.aio.client import ApiClient

moment, _, number = sys.argv.pop(1).partition("-")
left = int(number)
call_api = ApiClient.call_api


async def dying_call(self: ApiClient, method: str, url: str, *arguments: Any, **options: Any) -> Any:
    global left
    left -= method != "GET" and "/authorization.k8s.io/" not in url
    last = left == 0
    left -= last
    if last and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    response = await call_api(self, method, url, *arguments, **options)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    return response


ApiClient.call_api = dying_call

runpy.run_module("isvc_operator", run_name="__main__")
