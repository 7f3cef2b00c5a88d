"""Records Events on objects."""

from __future__ import annotations

import logging

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError, NamespaceEnding
from isvc_operator.manifests import Manifest

log = logging.getLogger(__name__)


async def record(api: KubeApi, event: Manifest) -> None:
    """Record an Event. One that is refused is lost: it repeats what the status, or the log, says."""
    try:
        await api.send(requests.create_event(event))
    except NamespaceEnding:
        raise
    except KubeError as error:
        log.warning("an Event is not recorded: %s (it says: %s)", error, event["message"])
