"""The end of a container's log."""

from __future__ import annotations

import logging

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.limits import LOG_BYTES, LOG_READ_BYTES
from isvc_operator.text import last_of

log = logging.getLogger(__name__)


async def end_of_log(api: KubeApi, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
    """Return the last lines of the log; empty, with a line in our own log, if it cannot be read."""

    async def read(lines: int) -> str:
        return await api.send(requests.pod_log(namespace, pod, container, previous=previous, lines=lines))

    try:
        text = await read(lines)
        if lines > 1 and len(text.encode()) >= LOG_READ_BYTES:  # cut at the end: an earlier line is too long
            text = await read(1)
        return last_of(text.strip(), LOG_BYTES)
    except KubeError as error:
        log.info("%s: the log of pod %s, container %s cannot be read: %s", namespace, pod, container, error)
        return ""


async def end_of_failed(api: KubeApi, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
    """Return the last lines of an instance of a container that has ended; empty if they cannot be read.

    It may have been restarted since its pod was read: its log is then the previous one.
    """
    text = await end_of_log(api, namespace, pod, container, previous=previous, lines=lines)
    if text or previous:
        return text
    return await end_of_log(api, namespace, pod, container, previous=True, lines=lines)
