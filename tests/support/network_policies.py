"""Evaluates NetworkPolicies as the API defines them: the test cluster's network does not enforce any.

https://kubernetes.io/docs/concepts/services-networking/network-policies: a pod that no policy selects accepts every
connection; one that some select accepts what a rule of any of them allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Client:
    """A pod of a namespace or, with an address, something outside the pod network."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""


def accepts(policies: Iterable[Policy], labels: Mapping[str, str], client: Client, port: int) -> bool:
    """Whether the pod with these labels accepts the client's connection; the policies are of the pod's namespace."""
    selecting = [item for item in policies if matches(item["spec"]["podSelector"], labels)]
    rules = [(item["metadata"]["namespace"], rule) for item in selecting for rule in item["spec"]["ingress"]]
    return not selecting or any(_allows(rule, client, port, namespace) for namespace, rule in rules)


def _allows(rule: Mapping[str, Any], client: Client, port: int, namespace: str) -> bool:
    ports, peers = rule.get("ports", ()), rule.get("from", ())
    is_port = not ports or any(item["port"] == port for item in ports)
    return is_port and (not peers or any(_is(peer, client, namespace) for peer in peers))


def _is(peer: Mapping[str, Any], client: Client, namespace: str) -> bool:
    if block := peer.get("ipBlock"):
        return bool(client.address) and ip_address(client.address) in ip_network(block["cidr"])
    if not client.namespace:
        return False
    near = client.namespace == namespace
    named = {"kubernetes.io/metadata.name": client.namespace}
    is_there = matches(peer["namespaceSelector"], named) if "namespaceSelector" in peer else near
    return is_there and matches(peer.get("podSelector", {}), client.labels)


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector of `matchLabels` and expressions `In` matches; an empty one matches everything."""
    expressions = selector.get("matchExpressions", ())
    assert all(expression["operator"] == "In" for expression in expressions)
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()) and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )
