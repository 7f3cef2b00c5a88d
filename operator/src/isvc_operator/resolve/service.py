"""Makes every decision about a service, from its definition, the runtimes and the configuration. Pure.

A component comes about by steps: ``STEPS`` lists those for each kind in their order. A step takes the draft of the
component and the context, and returns the draft with one thing more decided. It knows nothing of the others, and may
rely on what those before it have done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_RUNTIME,
    CA_BUNDLE_CONFIG_MAP,
    EXPLAINER,
    PREDICTOR,
    TRANSFORMER,
)
from isvc_operator.config import NetworkAccess, NetworkPolicyConfig, OperatorConfig, UpgradePolicy
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.annotations import IngressAnnotations, ingress_annotations, labels_and_annotations
from isvc_operator.resolve.component import (
    Component,
    Context,
    ModelOnRuntime,
    Predictor,
    Step,
    StorageContext,
)
from isvc_operator.resolve.defaults import (
    check_containers,
    check_repeated_items,
    check_resources,
    termination,
    with_defaults,
)
from isvc_operator.resolve.front import ServingTls, payload_logger, read_tls, serving_tls, tls_secret
from isvc_operator.resolve.hosts import Hosts, resolve_hosts
from isvc_operator.resolve.pod import fill_placeholders, own_fields, runtime_fields, server_image, service_name
from isvc_operator.resolve.ports import service_ports
from isvc_operator.resolve.requested import components_of, model_of
from isvc_operator.resolve.runtime import ChosenRuntime, Runtimes, choose_runtime
from isvc_operator.resolve.scaling import scaling
from isvc_operator.resolve.storage.planning import model_storage
from isvc_operator.resolve.transformer import model_name_in_path, predictor_flags
from isvc_operator.resolve.upgrades import InputDigests, inputs_of, upgrade_policy

_COMPLETED: Final[tuple[Step, ...]] = (
    termination,
    with_defaults,
    check_repeated_items,
    check_containers,
    check_resources,
    service_ports,
    serving_tls,
    payload_logger,
    scaling,
)
STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    PREDICTOR: (
        labels_and_annotations,
        own_fields,  # the pod and its server as the service has them
        runtime_fields,  # the runtime's beneath them
        fill_placeholders,
        server_image,
        service_name,
        model_storage,
        *_COMPLETED,
    ),
    TRANSFORMER: (labels_and_annotations, own_fields, service_name, model_storage, predictor_flags, *_COMPLETED),
    EXPLAINER: (
        labels_and_annotations,
        own_fields,
        service_name,
        model_storage,
        predictor_flags,
        model_name_in_path,
        *_COMPLETED,
    ),
}


@dataclass(frozen=True)
class Resolved:
    """A service with every decision made; ``render`` turns it into manifests.

    ``chosen`` is None if the predictor consists of the user's own containers. ``inputs``: what its pods are rendered
    from. ``budgets`` are the PodDisruptionBudgets of others in its namespace. ``access``: who may connect to its pods,
    ``tls``: what they serve with.
    """

    service: InferenceService
    chosen: ChosenRuntime | None
    predictor: Component
    transformer: Component | None
    explainer: Component | None
    hosts: Hosts
    ingress_annotations: IngressAnnotations
    upgrade_policy: UpgradePolicy
    inputs: InputDigests
    budgets: Sequence[Manifest] = ()
    access: NetworkAccess = NetworkAccess.NONE
    tls: ServingTls | None = None

    @property
    def components(self) -> tuple[Component, ...]:
        """Every component, the predictor first because the others need it."""
        return tuple(item for item in (self.predictor, self.transformer, self.explainer) if item)

    def is_behind(self, kind: str) -> bool:
        """Whether only other components of the service may connect to this one."""
        return self.access is NetworkAccess.SERVICE and kind == PREDICTOR and self.transformer is not None

    @property
    def refers_to_objects(self) -> bool:
        """Whether it refers to objects that are not watched: a service account, secrets."""
        plans = [item.storage for item in self.components if item.storage]
        return self.tls is not None or any(source.remote for plan in plans for source in plan.copied)

    @property
    def waits_for_keda(self) -> bool:
        """Whether a component is to be scaled by KEDA, which the cluster does not have."""
        return any(item.scaling.lacks_keda for item in self.components)

    @property
    def mounts_ca_bundle(self) -> bool:
        """Whether a pod mounts the copy of the administrator's certificates."""
        mounted = (item.storage.preset.value("CA_BUNDLE_CONFIGMAP_NAME") for item in self.components if item.storage)
        return CA_BUNDLE_CONFIG_MAP in mounted


_NONE: Mapping[str, str] = {}
_PROTOCOLS = ("v1", "v2")  # of the user's own containers


def resolve(
    service: InferenceService,
    runtimes: Runtimes,
    config: OperatorConfig,
    *,
    storage: StorageContext,
    taken: Mapping[str, str] = _NONE,
    budgets: Sequence[Manifest] = (),
    keda: bool = True,
    tls: bool = True,
) -> Resolved:
    """Resolve a service; raises InvalidSpec if it cannot be served as written.

    ``taken`` are the hosts that belong to other services (``host_claims``), ``budgets`` the PodDisruptionBudgets of
    others in its namespace. ``keda``: the cluster has KEDA. ``tls``: pods serve TLS if that is asked for.
    """
    secret = tls_secret(service, config) if tls else None
    served = _served(service, runtimes)
    first, *others = components_of(service)
    context = Context(service, first, config, storage, served=served, secret=secret, keda=keda)
    component = _component(context)
    predictor = Predictor(component, served.chosen.protocol if served else _own_protocol(component))
    callers = (replace(context, requested=item, served=None, predictor=predictor) for item in others)
    components = {PREDICTOR: component, **{item.requested.kind: _component(item) for item in callers}}
    excluded = config.inference_service.service_annotation_disallowed_list
    own_annotations = {name: value for name, value in service.metadata.annotations.items() if name not in excluded}
    access = _network_access(own_annotations, config.network_policy)
    hosts = _hosts(service, components, config, taken=taken, access=access)
    called = [f"{component.name}.{service.metadata.namespace or ''}"] if len(components) > 1 else []
    names = [*called, urlsplit(hosts.address).hostname or ""]
    chosen = served.chosen if served else None
    annotations = ingress_annotations(own_annotations if hosts.external else {}, config.ingress)
    plans = [item.storage for item in components.values() if item.storage]
    policy = upgrade_policy(service.metadata, config)
    inputs = inputs_of(service, chosen, config, objects=storage.objects, plans=plans)
    return Resolved(
        service=service,
        chosen=chosen,
        predictor=component,
        transformer=components.get(TRANSFORMER),
        explainer=components.get(EXPLAINER),
        hosts=hosts,
        ingress_annotations=annotations,
        upgrade_policy=policy,
        inputs=inputs,
        budgets=budgets,
        access=access,
        tls=read_tls(secret, storage.objects, names, calls=bool(called)) if secret else None,
    )


def _component(context: Context) -> Component:
    component = Component(context.requested.kind, context.requested.name)
    for step in STEPS[component.kind]:
        component = step(component, context)
    return component


def _served(service: InferenceService, runtimes: Runtimes) -> ModelOnRuntime | None:
    """Return the model and its runtime; None for the user's own containers."""
    predictor = service.spec.predictor
    if predictor.worker_spec is not None:
        raise InvalidSpec(
            "spec.predictor.workerSpec requests one model on several nodes, which is not supported: the pods of a "
            "service do not work together; remove it, and choose a runtime without workerSpec"
        )
    if model := model_of(predictor):
        annotated = service.metadata.annotations.get(ANNOTATION_RUNTIME)
        return ModelOnRuntime(model, choose_runtime(model, runtimes, annotated))
    return None


def _own_protocol(predictor: Component) -> str:
    """Return the protocol of the user's own containers, from KServe's variable ``PROTOCOL``."""
    env = predictor.server.get("env", ())
    protocol = next((str(item.get("value", "")) for item in env if item["name"] == "PROTOCOL"), _PROTOCOLS[0])
    if protocol not in _PROTOCOLS:
        raise InvalidSpec(f"variable PROTOCOL of spec.predictor is {protocol!r}; write one of {', '.join(_PROTOCOLS)}")
    return protocol


def _hosts(
    service: InferenceService,
    components: Mapping[str, Component],
    config: OperatorConfig,
    *,
    taken: Mapping[str, str],
    access: NetworkAccess,
) -> Hosts:
    """Return the hosts; a predictor that only its transformer may reach has none of its own."""
    entry = components.get(TRANSFORMER, components[PREDICTOR])
    closed = PREDICTOR if access is NetworkAccess.SERVICE and TRANSFORMER in components else None
    scheme = "https" if entry.tls else "http"
    return resolve_hosts(
        service.metadata,
        {kind: component.name for kind, component in components.items() if kind != closed},
        address=f"{scheme}://{entry.name}.{service.metadata.namespace}.svc.cluster.local{entry.ports.in_address}",
        config=config.ingress,
        taken=taken,
        only_grpc=entry.ports.rest is None,
    )


def _network_access(annotations: Mapping[str, str], config: NetworkPolicyConfig) -> NetworkAccess:
    """Return who may connect to the pods; raises InvalidSpec if the annotation has another value."""
    given = annotations.get(ANNOTATION_NETWORK_POLICY, config.default)
    try:
        return NetworkAccess(given)
    except ValueError as error:
        raise InvalidSpec(
            f"annotation {ANNOTATION_NETWORK_POLICY} is {given!r}; write one of {', '.join(NetworkAccess)}"
        ) from error
