"""Whether requests from outside the cluster reach a service: its Ingress exists, its HTTPRoutes are accepted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.kinds import GATEWAY_API, is_route, kind_named
from isvc_operator.limits import LINE_BYTES
from isvc_operator.manifests import Manifest, find, name_of
from isvc_operator.text import one_line

# What helps against the reasons of the Gateway API, by reason.
_CURES: Final[Mapping[str, str]] = {
    "BackendNotFound": "the gateway's controller has not seen the Service; see its log if this stays",
    "NoMatchingListenerHostname": (
        "no listener of the Gateway has these hosts; let the administrator give one a hostname such as '*.DOMAIN', or "
        "none, or change ingressDomain and domainTemplate in inferenceservice-config"
    ),
    "NoMatchingParent": (
        "the Gateway has no listener for HTTP; let the administrator add one, or change kserveIngressGateway in "
        "inferenceservice-config"
    ),
    "NotAllowedByListeners": (
        "let the administrator allow routes of this namespace and kind in the Gateway's listeners "
        "(allowedRoutes.namespaces and allowedRoutes.kinds)"
    ),
    "RefNotPermitted": "let the administrator create a ReferenceGrant for the Service",
    "UnsupportedProtocol": "the gateway does not support the protocol of the Service's port",
    "UnsupportedValue": "the gateway's controller lacks a feature that the route uses; see its documentation",
}


@dataclass(frozen=True)
class RouteProblem:
    """Why requests do not reach the service yet; ``failed`` unless the gateway's controller is about to answer."""

    reason: str
    message: str
    failed: bool = True


def first_problem(
    rendered: Iterable[Manifest], observed: Collection[Manifest], *, missing: Collection[str] = ()
) -> RouteProblem | None:
    """Return why one of the rendered Ingresses and routes does not work; None if all of them do.

    ``missing`` are the optional kinds whose CRD is not installed.
    """
    return next((problem for child in rendered for problem in _problems(child, observed, missing)), None)


def is_in_place(rendered: Manifest, observed: Collection[Manifest]) -> bool:
    """Whether a route exists and is accepted."""
    return first_problem((rendered,), observed) is None


def _problems(child: Manifest, observed: Collection[Manifest], missing: Collection[str]) -> Iterator[RouteProblem]:
    kind, name = child["kind"], name_of(child)
    found = find(observed, kind, name) if is_route(kind) else child
    if kind in missing and is_route(kind):
        yield RouteProblem("GatewayApiNotInstalled", _not_installed(kind))
    elif found is None:
        is_ingress = kind == "Ingress"
        what = "The Ingress" if is_ingress else f"{kind} {name}"
        yield RouteProblem("IngressNotCreated" if is_ingress else "RouteNotCreated", f"{what} does not exist yet")
    elif kind_named(kind).group == GATEWAY_API:
        yield from _not_accepted(found, child["spec"]["parentRefs"][0])


def _not_installed(kind: str) -> str:
    return (
        f"the cluster has no kind {kind} of {kind_named(kind).api_version}: the Gateway API is not installed; install "
        "it together with a gateway controller, or set enableGatewayApi to false in inferenceservice-config"
    )


def _not_accepted(route: Manifest, parent: Mapping[str, str]) -> Iterator[RouteProblem]:
    """Yield what the controller of our Gateway reports of this generation of the route."""
    what, gateway = f"{route['kind']} {name_of(route)}", f"Gateway {parent['namespace']}/{parent['name']}"
    reported = [item for item in _parents(route) if _is(parent, item.get("parentRef") or {})]
    conditions = [condition for item in reported for condition in item.get("conditions") or ()]
    if not conditions:
        yield RouteProblem(
            "ParentStatusNotAvailable",
            f"{what} is not accepted yet: {gateway} has reported no status; if this stays, check that this Gateway "
            "exists (kserveIngressGateway in inferenceservice-config) and that its controller runs",
        )
    generation = route["metadata"].get("generation", 0)
    if any(condition.get("observedGeneration", generation) < generation for condition in conditions):
        yield RouteProblem("ParentStatusOutdated", f"{gateway} has not reported on the latest {what} yet", failed=False)
    for condition in conditions:
        if condition.get("status") == "False":
            reason = one_line(str(condition.get("reason") or "NotAccepted"), LINE_BYTES)
            said = one_line(str(condition.get("message") or condition.get("type")), LINE_BYTES).rstrip(".")
            fix = f"; {_CURES[reason]}" if reason in _CURES else ""
            yield RouteProblem(reason, f"{what}: {gateway} reports {reason}: {said}{fix}")


def _parents(route: Manifest) -> Iterable[Mapping[str, Any]]:
    found: Iterable[Mapping[str, Any]] = (route.get("status") or {}).get("parents") or ()
    return found


def _is(parent: Mapping[str, str], reported: Mapping[str, Any]) -> bool:
    return all(reported.get(name) == parent[name] for name in ("namespace", "name"))
