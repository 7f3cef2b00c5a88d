"""Request path: from the Ingress or the route to the components. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from isvc.view.values import ComponentView, Hop
from isvc_operator.api.kinds import is_route
from isvc_operator.api.names import EXPLAINER, PREDICTOR, TRANSFORMER
from isvc_operator.manifests import Manifest, name_of

_EVERY_PATH = "/"
_EXPLAIN = ":explain"


def shares_of(service: str, children: Iterable[Manifest]) -> Mapping[str, int]:
    """Return how many per cent of the service's requests each of the routed Services gets, by its name."""
    for child in _routes(service, children):
        for rule in _rules(child):
            if shares := _shares(backends for path, backends in _paths(rule) if path == _EVERY_PATH):
                return shares
    return {}


def request_path_of(service: Manifest, children: Sequence[Manifest], components: Sequence[ComponentView]) -> list[Hop]:
    """Return the steps of a request: one for each pair of a place and where requests go from there."""
    name, kinds = name_of(service), {item.name: item.kind for item in components}
    entry = _entry(service, children)
    shares = shares_of(name, children) or (_inside_the_cluster(components) if _address(service) else {})
    several = len(shares) > 1
    hops = [
        Hop(name=entry[0], kind=entry[1], target=to, weight=share if several else None) for to, share in shares.items()
    ]
    hops += [Hop(name=entry[0], kind=entry[1], target=to) for to in _explainers(name, children) if to not in shares]
    predictor = next((item.name for item in components if item.kind == PREDICTOR), "")
    for target in dict.fromkeys(hop.target for hop in hops):
        calls = predictor if kinds.get(target) in (TRANSFORMER, EXPLAINER) else ""
        hops.append(Hop(name=target, kind=kinds.get(target, "Service"), target=calls))
    if any(hop.target == predictor for hop in hops) and all(hop.name != predictor for hop in hops):
        hops.append(Hop(name=predictor, kind=PREDICTOR))
    return hops


def _entry(service: Manifest, children: Sequence[Manifest]) -> tuple[str, str]:
    """Return the host by which requests come, and the kind of what takes them."""
    for child in _routes(name_of(service), children):
        hosts = [*child.get("spec", {}).get("hostnames", ()), *(rule.get("host", "") for rule in _rules(child))]
        return next(filter(None, hosts), name_of(child)), child["kind"]
    return _host(_address(service)) or name_of(service), "Service"


def _address(service: Manifest) -> str:
    return str(service.get("status", {}).get("address", {}).get("url", ""))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _inside_the_cluster(components: Sequence[ComponentView]) -> Mapping[str, int]:
    by_kind = {item.kind: item.name for item in reversed(components)}
    first = by_kind.get(TRANSFORMER) or by_kind.get(PREDICTOR)
    return {first: 100} if first else {}


def _routes(service: str, children: Iterable[Manifest]) -> list[Manifest]:
    """Return the Ingress or the routes for the hosts of the service itself; HTTPRoutes win while both exist."""
    found = [item for item in children if is_route(item["kind"]) and name_of(item) == service]
    return sorted(found, key=lambda item: str(item["kind"]) == "Ingress")


def _rules(child: Manifest) -> Sequence[Mapping[str, Any]]:
    rules: Sequence[Mapping[str, Any]] = child.get("spec", {}).get("rules", ())
    return rules


def _paths(rule: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[tuple[str, int]]]]:
    """Yield each path of a rule with its backends and their weights."""
    for item in rule.get("http", {}).get("paths", ()):
        yield item["path"], [(item.get("backend", {}).get("service", {}).get("name", ""), 1)]
    if backends := [(item["name"], max(0, item.get("weight", 1))) for item in rule.get("backendRefs", ())]:
        paths = [item.get("path", {}).get("value", _EVERY_PATH) for item in rule.get("matches", ())]
        for path in paths or [_EVERY_PATH]:
            yield path, backends


def _shares(found: Iterable[Sequence[tuple[str, int]]]) -> Mapping[str, int]:
    weights: Counter[str] = Counter()
    for name, weight in next(iter(found), ()):
        weights[name] += weight
    total = weights.total()
    return {name: round(100 * weight / total) for name, weight in weights.items() if name} if total else {}


def _explainers(service: str, children: Iterable[Manifest]) -> list[str]:
    every = (item for child in _routes(service, children) for rule in _rules(child) for item in _paths(rule))
    found = (name for path, backends in every if path.endswith(_EXPLAIN) for name, _ in backends)
    return [*dict.fromkeys(filter(None, found))]
