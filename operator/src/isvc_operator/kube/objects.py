"""Reads what is not watched: a few objects by their names (service accounts, secrets, ConfigMaps), and optional kinds.

They are cached for a short time, so that a reconcile with nothing to do sends no request, and services of a namespace
share the objects that they all refer to. Secrets are never put into the watch cache or a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from isvc_operator.api.names import CA_BUNDLE_CONFIG_MAP, CREDENTIALS_ROLE, FIELD_MANAGER
from isvc_operator.errors import InvalidCredentials
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import ObjectNotFound, RequestRefused
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.storage.plan import ObjectReference, Objects

FOUND_TTL = 30.0  # seconds
# A missing object may be created in a moment: `kubectl apply` of a file creates its objects one by one.
MISSING_TTL = 2.0  # seconds
DISCOVERY_TTL = 30.0  # seconds

_FORBIDDEN = 403
_COPY = ObjectReference("ConfigMap", CA_BUNDLE_CONFIG_MAP)

Wanted = Callable[[Objects], Iterable[ObjectReference]]


@dataclass
class ObjectReader:
    """Reads objects by name, and whether there are objects of a kind. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _cached: dict[tuple[str, ObjectReference], tuple[float, Manifest | None]] = field(default_factory=dict)
    _kinds: dict[str, tuple[float, bool]] = field(default_factory=dict)

    async def read_all(self, namespace: str, wanted: Wanted) -> Objects:
        """Read the objects that ``wanted`` names; it is called again with those read, and may name more."""
        now = self.clock()
        self._cached = {key: entry for key, entry in self._cached.items() if entry[0] > now}
        known: dict[ObjectReference, Manifest | None] = {}
        while missing := [reference for reference in wanted(known) if reference not in known]:
            for reference in missing:
                known[reference] = await self._read(namespace, reference)
        return known

    async def _read(self, namespace: str, reference: ObjectReference) -> Manifest | None:
        key = (namespace, reference)
        if key not in self._cached:
            try:
                body = decode(await self.api.send(requests.get(reference.kind, namespace, reference.name)))
            except ObjectNotFound:
                body = None
            except RequestRefused as error:
                raise _with_remedy(error, namespace, reference) from error
            self.remember(namespace, reference, body)
        return self._cached[key][1]

    def remember(self, namespace: str, reference: ObjectReference, body: Manifest | None) -> None:
        """Cache this object as what the API server has."""
        until = self.clock() + (MISSING_TTL if body is None else FOUND_TTL)
        self._cached[namespace, reference] = (until, body)

    async def has_kind(self, kind: str) -> bool:
        """Whether objects of this kind can be created; raises KubeError if the API server does not say."""
        if kind not in self._kinds or self._kinds[kind][0] <= self.clock():
            try:
                await self.api.send(requests.discover(kind))
                found = True
            except ObjectNotFound:
                found = False
            self._kinds[kind] = self.clock() + DISCOVERY_TTL, found
        return self._kinds[kind][1]


def _with_remedy(error: RequestRefused, namespace: str, reference: ObjectReference) -> RequestRefused:
    """Return the error, with the role to grant if it is the one that can be granted by namespace."""
    if error.status != _FORBIDDEN or reference.kind == "ConfigMap":
        return error
    return RequestRefused(
        error.status,
        f"{error}; to allow it, bind the operator's role {CREDENTIALS_ROLE} in namespace {namespace} (docs/install.md)",
    )


async def copy_ca_bundle(objects: ObjectReader, name: str, *, home: str, namespace: str) -> None:
    """Make ``global-ca-bundle`` in ``namespace`` a copy of the ConfigMap ``name`` in ``home``, the operator's own.

    It has the administrator's certificates, and a pod can only mount what is in its own namespace.
    """
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
