"""Reads what the checks are about, with the caller's own rights, and checks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from isvc.api_server import PersonsApi
from isvc.crds import RESOURCES, CustomResource
from isvc.doctor.checks import (
    Check,
    Right,
    Verdict,
    check_crd,
    check_gateway,
    check_health,
    check_ingress_classes,
    check_kserve,
    check_operator,
    check_rights,
    check_runtimes,
    check_settings,
    check_storage_secret,
    check_version,
    minor_version,
)
from isvc.migrate.names import KSERVE_LEASE, KSERVE_MANAGER, KSERVE_NAMESPACE, MIGRATION
from isvc.source.inputs import ClusterInputs, list_all, list_path, read_if_any, read_inputs
from isvc.source.server import server_version
from isvc.view.json_shape import as_json
from isvc_operator import __version__
from isvc_operator.api import inference_service, serving_runtime
from isvc_operator.api.kinds import GATEWAY_API, ResourceKind, Role, kind_named
from isvc_operator.api.names import AUTOSCALER_PROBLEM, CONFIG_MAP, GROUP
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.decide import decide
from isvc_operator.errors import ConfigError
from isvc_operator.ignored.walker import ignored_settings
from isvc_operator.kube import requests
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import Manifest, ServiceKey, condition_of, name_of
from isvc_operator.observe.conditions import phase_of
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.telemetry.snapshot import Phase
from isvc_operator.text import one_line

_DEFAULT: Final = "default"  # every namespace gets this service account
_HOME: Final = "isvc-system"
_OPERATOR: Final = "app.kubernetes.io/name=isvc-operator"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
_CLASSES: Final = ResourceKind(
    "IngressClass", "networking.k8s.io", "v1", "ingressclasses", Role.REFERENCE, namespaced=False
)
_RIGHTS: Final = (
    Right("list", GROUP, "inferenceservices", "isvc status"),
    Right("create", GROUP, "inferenceservices", "kubectl apply"),
    Right("patch", GROUP, "inferenceservices", "kubectl apply, isvc diff"),
    Right("watch", GROUP, "inferenceservices", "isvc status -w"),
    Right("list", "", "pods", "isvc status, isvc diagnose"),
    Right("watch", "", "pods", "isvc status -w"),
    Right("get", "", "pods/log", "isvc logs"),
    Right("list", "", "events", "isvc diagnose"),
    Right("get", "", "pods/portforward", "isvc predict --port-forward"),
)
# Since this version the API server asks for `create` of those who open a websocket, too.
_CREATES_SINCE: Final = 35
_CREATES: Final = Right("create", "", "pods/portforward", "isvc predict --port-forward")


@dataclass(frozen=True)
class Examination:
    """``server``: the URL of the API server. ``namespace``: whose services are looked at."""

    api: PersonsApi
    server: str
    namespace: str
    reader: ObjectReader

    async def checks(self) -> AsyncIterator[Check]:
        """Yield the checks, the first ones first; ends after the first if the API server does not respond."""
        try:
            version = await server_version(self.api)
        except KubeError as error:
            yield Check("cluster", Verdict.PROBLEM, str(error))
            return
        yield check_version(version, self.server) if version else _unread_version(self.server)
        for check in await asyncio.gather(*map(self._crd, RESOURCES)):
            yield check
        operator = await self._operator()
        yield operator[0]
        for check in await self._kserve():
            yield check
        is_there = await self._namespace()
        yield is_there or await self._rights(version)
        config, checks = await self._configuration(operator[1])
        for check in checks:
            yield check
        yield await self._ingress(config)
        yield await self._runtimes()
        if is_there:
            return
        yield await self._storage_secret(config)
        async for check in self._services(config):
            yield check

    async def _crd(self, resource: CustomResource) -> Check:
        try:
            found = await read_if_any(self.api, _CRDS + resource.name)
        except KubeError as error:
            return _unknown(f"crd {resource.name}", error)
        return check_crd(resource, found, __version__)

    async def _operator(self) -> tuple[Check, str]:
        """Return the check, and the operator's own namespace."""
        try:
            try:
                found = await self._operators("")
            except RequestRefused:  # a list of the whole cluster
                found = await self._operators(_HOME)
        except KubeError as error:
            return _unknown("operator", error), _HOME
        return check_operator(found, __version__), found[0]["metadata"]["namespace"] if found else _HOME

    async def _operators(self, namespace: str) -> list[Manifest]:
        return await list_path(self.api, requests.path_of("Deployment", namespace), "apps/v1", labels=_OPERATOR)

    async def _kserve(self) -> list[Check]:
        """Return a check for each manager of KServe; its charts and manifests have one name in any namespace."""
        fields = f"metadata.name={KSERVE_MANAGER}"
        try:
            try:
                found = await list_path(self.api, requests.path_of("Deployment", ""), "apps/v1", fields=fields)
            except RequestRefused:
                manager = await read_if_any(self.api, requests.path_of("Deployment", KSERVE_NAMESPACE, KSERVE_MANAGER))
                found = [manager] if manager else []
            return [check_kserve(item, paused=await self._is_paused(item["metadata"]["namespace"])) for item in found]
        except KubeError as error:
            return [_unknown("kserve", error)]

    async def _is_paused(self, namespace: str) -> bool:
        lease = await read_if_any(self.api, requests.read_lease(namespace, KSERVE_LEASE).path)
        return lease is not None and lease["spec"].get("holderIdentity") == MIGRATION

    async def _namespace(self) -> Check | None:
        """Return that the namespace does not exist; who may not read it can still have rights in it."""
        try:
            if await read_if_any(self.api, f"/api/v1/namespaces/{self.namespace}"):
                return None
        except KubeError:
            return None
        message = f"{self.namespace} does not exist; create it, or name another one with --namespace"
        return Check("namespace", Verdict.PROBLEM, message)

    async def _rights(self, version: Manifest | None) -> Check:
        rights = (*_RIGHTS, *([_CREATES] if minor_version(version or {}) >= _CREATES_SINCE else []))
        try:
            allowed = await asyncio.gather(*map(self._may, rights))
        except KubeError as error:
            return _unknown("rights", error)
        return check_rights([right for right, may in zip(rights, allowed, strict=True) if not may], self.namespace)

    async def _storage_secret(self, config: OperatorConfig) -> Check:
        name = config.credentials.storage_spec_secret_name
        try:
            found = await read_if_any(self.api, requests.path_of("Secret", self.namespace, name))
        except RequestRefused:  # few may read secrets, and few services need this one
            message = f"you may not read {name}; only services with `storage.key` need it"
            return Check("storage secret", Verdict.OK, message)
        except KubeError as error:
            return _unknown("storage secret", error)
        return check_storage_secret(name, self.namespace, found)

    async def _may(self, right: Right) -> bool:
        review = requests.review_own_access(right.verb, right.group, right.resource, self.namespace)
        answer = decode(await self.api.send(review))
        return bool(answer.get("status", {}).get("allowed"))

    async def _configuration(self, home: str) -> tuple[OperatorConfig, list[Check]]:
        try:
            found = await read_if_any(self.api, requests.path_of("ConfigMap", home, CONFIG_MAP))
            data = dict((found or {}).get("data") or {})
            return parse_config(data), list(check_settings(ignored_settings(data), home, exists=found is not None))
        except ConfigError as error:
            message = one_line(f"{error}; until then the operator uses the previous one")
            return OperatorConfig(), [Check("configuration", Verdict.PROBLEM, message)]
        except KubeError as error:
            return OperatorConfig(), [_unknown("configuration", error)]

    async def _ingress(self, config: OperatorConfig) -> Check:
        ingress = config.ingress
        if ingress.disable_ingress_creation:
            return Check("ingress", Verdict.OK, "disableIngressCreation is set: services get no route")
        try:
            if not ingress.enable_gateway_api:
                return check_ingress_classes(ingress, await list_all(self.api, _CLASSES))
            installed = await self.reader.has_kind("HTTPRoute")
            namespace, name = ingress.gateway
            path = f"/apis/{GATEWAY_API}/v1/namespaces/{namespace}/gateways/{name}"
            return check_gateway(ingress, installed=installed, gateway=await read_if_any(self.api, path))
        except KubeError as error:
            return _unknown("ingress", error)

    async def _runtimes(self) -> Check:
        kinds = ((serving_runtime.CLUSTER_KIND, ""), (serving_runtime.KIND, self.namespace))
        try:
            lists = [await list_all(self.api, kind_named(kind), namespace) for kind, namespace in kinds]
        except KubeError as error:
            return _unknown("runtimes", error)
        return check_runtimes([item for items in lists for item in items])

    async def _services(self, config: OperatorConfig) -> AsyncIterator[Check]:
        """Yield a line for each service of the namespace that cannot be served, and one for all others."""
        try:
            inputs = await read_inputs(self.api, [self.namespace], config, self.reader)
        except KubeError as error:
            yield _unknown("services", error)
            return
        if any(kind in inputs.hidden for kind in (inference_service.PLURAL, serving_runtime.CLUSTER_PLURAL)):
            message = f"you may not read {', '.join(inputs.hidden)}; ask who administers the cluster"
            yield Check("services", Verdict.UNKNOWN, message)
            return
        bodies = [
            item
            for item in inputs.cache.of_kind(inference_service.KIND)
            if item["metadata"]["namespace"] == self.namespace
        ]
        found = {name_of(item): await _service(inputs, ServiceKey(self.namespace, name_of(item))) for item in bodies}
        checks = [check for check in found.values() if check]
        for check in checks:
            yield check
        failed = [name_of(item) for item in bodies if phase_of(item) is Phase.FAILED and not found[name_of(item)]]
        if failed or not checks:
            yield check_health(failed, len(bodies), self.namespace)


async def _service(known: ClusterInputs, key: ServiceKey) -> Check | None:
    """Return what is wrong with a service; None if it can be served."""
    subject = f"service {key.name}"
    try:
        inputs = await known.of(key)
        if inputs is None:
            return None
        decision = decide(inputs)
        if decision.problem:
            return Check(subject, Verdict.PROBLEM, decision.problem.message)
        if decision.resolved is None:  # it is stopped
            return None
        requested = storage_requests(inputs.service).values()
        accounts = [request.account for request in requested if request.account.name != _DEFAULT]
        found = await known.objects.read_all(key.namespace, lambda _: accounts)
    except KubeError as error:
        return _unknown(subject, error)
    for account in accounts:
        if found[account] is None:
            message = f"its service account {account.name} does not exist in namespace {key.namespace}; create it"
            return Check(subject, Verdict.PROBLEM, message)
    if told := condition_of(inputs.body, AUTOSCALER_PROBLEM):
        return Check(subject, Verdict.WARNING, one_line(told["message"]))
    return None


def _unread_version(server: str) -> Check:
    message = f"you may not read the version of {server}; ask who administers the cluster"
    return Check("cluster", Verdict.UNKNOWN, message)


def _unknown(subject: str, error: KubeError) -> Check:
    return Check(subject, Verdict.UNKNOWN, one_line(f"it could not be read: {error}; ask who administers the cluster"))


def as_data(checks: list[Check], verdict: Verdict) -> dict[str, Any]:
    """Return the checks as plain values."""
    return {"verdict": verdict.value, "checks": as_json(checks)}
