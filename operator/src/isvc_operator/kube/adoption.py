"""What KServe's controller has left on objects, and this operator has to take over or undo."""

from __future__ import annotations

from isvc_operator.api.names import FINALIZER_KSERVE
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, ObjectKey, ServiceKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import NotFound


async def let_go(api: KubeApi, cache: Cache, key: ServiceKey) -> None:
    """Take KServe's finalizer from a service that is being deleted: its controller is not there to do that.

    Where it is there, either of the two does it. Raises Conflict where the service has changed meanwhile.
    """
    service = cache.get(ObjectKey("InferenceService", key.namespace, key.name))
    finalizers = service["metadata"].get("finalizers", ()) if service else ()
    if service is None or FINALIZER_KSERVE not in finalizers:
        return
    others = [name for name in finalizers if name != FINALIZER_KSERVE]
    try:
        await api.send(requests.patch_metadata(service, {"finalizers": others}))
    except NotFound:
        return
