"""Services of this run by their names in the cluster: where one is named, its place here is put in. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

_HTTP = 80


@dataclass(frozen=True)
class ServiceAddress:
    """A Service, and where each of its ports is on this machine; ``ports`` has those of its pods as well."""

    name: str
    namespace: str
    host: str
    ports: Mapping[int, int]


def move_addresses(text: str, addresses: Iterable[ServiceAddress]) -> str:
    """Replace ``NAME``, ``NAME.NAMESPACE`` and the longer forms, with or without a port, by host and port here."""
    for address in addresses:
        text = _pattern(address).sub(partial(_moved, address), text)
    return text


def _pattern(address: ServiceAddress) -> re.Pattern[str]:
    name, namespace = re.escape(address.name), re.escape(address.namespace)
    return re.compile(rf"(?<![\w.-]){name}(\.{namespace}(\.svc(\.cluster\.local)?)?)?(:(?P<port>\d+))?(?![\w.-])")


def _moved(address: ServiceAddress, match: re.Match[str]) -> str:
    port = address.ports.get(int(match["port"] or _HTTP))
    return match[0] if port is None else f"{address.host}:{port}"
