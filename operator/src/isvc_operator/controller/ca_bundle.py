"""Copies the administrator's certificates to a service's namespace: a pod can only mount what is in its own."""

from __future__ import annotations

from isvc_operator.api.names import CA_BUNDLE_CONFIG_MAP, FIELD_MANAGER
from isvc_operator.errors import InvalidCredentials
from isvc_operator.kube import requests
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.resolve.storage.objects import ObjectReference

_COPY = ObjectReference("ConfigMap", CA_BUNDLE_CONFIG_MAP)


async def copy_ca_bundle(objects: ObjectReader, name: str, *, home: str, namespace: str) -> None:
    """Make ``global-ca-bundle`` in ``namespace`` a copy of the ConfigMap ``name`` in ``home``, the operator's own."""
    original = ObjectReference("ConfigMap", name)
    source = (await objects.read_all(home, lambda _: (original,)))[original]
    if source is None:
        raise InvalidCredentials(
            f"ConfigMap {name}, which caBundleConfigMapName of inferenceservice-config names, does not exist in "
            f"namespace {home}; create it with the key cabundle.crt"
        )
    copy = (await objects.read_all(namespace, lambda _: (_COPY,)))[_COPY]
    if copy is not None and copy.get("data") == source.get("data"):
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CA_BUNDLE_CONFIG_MAP,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
        },
        "data": source.get("data") or {},
    }
    await objects.api.send(requests.apply(manifest, force=True))
    objects.remember(namespace, _COPY, manifest)
