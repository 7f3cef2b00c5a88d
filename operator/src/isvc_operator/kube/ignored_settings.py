"""Reports settings of the operator's ConfigMap that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.observe.events import ignored_settings_event

log = logging.getLogger(__name__)


async def report_ignored(api: KubeApi, ignored: Sequence[str], *, home: str, now: str) -> None:
    """Log the settings, and record an Event on the ConfigMap in ``home`` if the operator runs in a cluster."""
    if not ignored:
        return
    log.warning("%s: these settings have no effect: %s", CONFIG_MAP, "; ".join(ignored))
    if not home:
        return
    try:
        await api.send(requests.create_event(ignored_settings_event(home, ignored, now)))
    except KubeError as error:
        log.warning("no Event is recorded on the ConfigMap %s: %s", CONFIG_MAP, error)
