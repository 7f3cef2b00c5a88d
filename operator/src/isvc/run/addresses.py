"""Replaces the cluster names of Services that run on this machine by their local host and port. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

_HTTP = 80


@dataclass(frozen=True)
class ServiceAddress:
    """A Service on this machine; ``ports`` maps its ports, and those of its pods, to local ports."""

    name: str
    namespace: str
    host: str
    ports: Mapping[int, int]


def localize_addresses(text: str, addresses: Iterable[ServiceAddress]) -> str:
    """Replace ``NAME``, ``NAME.NAMESPACE`` and the longer forms, with or without a port, by the local host and port."""
    for address in addresses:
        text = _pattern(address).sub(partial(_local, address), text)
    return text


def _pattern(address: ServiceAddress) -> re.Pattern[str]:
    name, namespace = re.escape(address.name), re.escape(address.namespace)
    return re.compile(rf"(?<![\w.-]){name}(\.{namespace}(\.svc(\.cluster\.local)?)?)?(:(?P<port>\d+))?(?![\w.-])")


def _local(address: ServiceAddress, match: re.Match[str]) -> str:
    port = address.ports.get(int(match["port"] or _HTTP))
    return match[0] if port is None else f"{address.host}:{port}"
