"""The ports of a component: those that its containers list, or else those that their servers are told. Pure.

Kubernetes only takes note of the list; a server listens where its flags and variables say. What leads to a server (the
Service, probes, NetworkPolicies, the flags of those that call it) asks here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import SERVICE_PORT, TLS_PORT, Component, Context, ServicePorts
from isvc_operator.resolve.containers import flags_in
from isvc_operator.text import one_line

DEFAULT_PORT = 8080
DEFAULT_GRPC_PORT = 8081  # of our runtimes and of KServe's SDK, where nothing else is asked for
# Names of flags and variables, the surest first: beside a port for REST, `port` is that for gRPC.
_HTTP = ("http_port", "mlserver_http_port", "rest_api_port", "rest_port", "port")
_GRPC = ("grpc_port", "mlserver_grpc_port")
_VAGUE: Final = "PORT"  # a variable that may be for something else: it counts only where no port is listed
_NAME = re.compile(r"(?:.*_)?port", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\(([^)]+)\)")
_SCRIPT = re.compile(r"-[a-z]*c")  # the flag of a shell before it
_HIGHEST = 65535
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")


class ToldPort(NamedTuple):
    """What the flag or the variable called ``name`` tells a server; ``number`` is None if ``text`` is not a port.

    0 stands for none.
    """

    name: str
    text: str
    number: int | None


def told_ports(container: Container) -> dict[str, ToldPort]:
    """Return the ports that the server is told, by names in lower case with ``_``; a flag wins over a variable.

    A script, as of ``sh -c``, is many words of the command line, and ``$(NAME)`` is expanded as Kubernetes does.
    """
    variables = {item["name"]: str(item["value"]) for item in container.get("env") or () if item.get("value")}
    arguments = [str(item) for item in (*container.get("command", ()), *container.get("args", ()))]
    lines = (item.split() if _SCRIPT.fullmatch(before) else [item] for before, item in pairwise(["", *arguments]))
    told = {}
    for name, value in (*variables.items(), *flags_in([word for words in lines for word in words])):
        if _NAME.fullmatch(spelling := name.lstrip("-").replace("-", "_").lower()):
            text = _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), value)
            is_port = text.isascii() and text.isdigit() and len(text) <= len(str(_HIGHEST)) and int(text) <= _HIGHEST
            told[spelling] = ToldPort(name, text, int(text) if is_port else None)
    return told


def told_port(container: Container, *, grpc: bool) -> ToldPort | None:
    """Return what the server is told of its port for gRPC, or for HTTP."""
    told = told_ports(container)
    return next((told[name] for name in (_GRPC if grpc else _HTTP) if name in told), None)


def is_grpc(port: str) -> bool:
    """Whether a port of this name is for gRPC, by KServe's convention (docs/kserve.md)."""
    return any(part in port.lower() for part in ("grpc", "h2c"))


def listed_ports(container: Container, *, grpc: bool) -> list[int]:
    """Return the ports for gRPC, or the others, that the container lists."""
    ports = container.get("ports") or ()
    return [int(port["containerPort"]) for port in ports if is_grpc(port.get("name") or "") is grpc]


def first_port(container: Container) -> Mapping[str, Any]:
    """Return the container's main port: the first one that it lists, or else that for HTTP."""
    ports = container.get("ports") or ()
    return ports[0] if ports else {"containerPort": http_port(container), "protocol": "TCP"}


def http_port(container: Container) -> int:
    """Return the first listed port that is not for gRPC, else what the server is told; else 8080, as with KServe."""
    if listed := listed_ports(container, grpc=False):
        return listed[0]
    told = told_port(container, grpc=False)
    return (told and told.number) or DEFAULT_PORT


def known_ports(container: Container) -> set[int]:
    """Return the ports that the container lists, and those that its server is told."""
    told = [found.number for grpc in (False, True) if (found := told_port(container, grpc=grpc)) and found.number]
    return {*listed_ports(container, grpc=False), *listed_ports(container, grpc=True), *told}


def front_of(component: Component) -> Container:
    """Return the container that gets the requests: a transformer in the predictor's pod, or else the server."""
    containers = component.pod.get("containers", ())
    return next((item for item in containers if item.get("name") == CONTAINER_TRANSFORMER), component.server)


def moved_ports(before: Container, after: Container) -> dict[int, int]:
    """Return which ports of a runtime's container have another number with the flags and variables of a service.

    A server that was told none has the one that the container lists. 0 stands for none.
    """
    old, new = told_ports(before), told_ports(after)
    pairs = [(told.number, new[name].number) for name, told in old.items() if name in new]
    for grpc, ports in ((False, [http_port(before)]), (True, listed_ports(before, grpc=True)[:1])):
        told = None if told_port(before, grpc=grpc) else told_port(after, grpc=grpc)
        if told and told.name != _VAGUE:
            pairs += [(port, told.number) for port in ports]
    return {was: now for was, now in pairs if was and now is not None and was != now}


def with_moved_ports(container: Container, moved: Mapping[int, int]) -> dict[str, Any]:
    """Return a runtime's container whose list and probes follow; a port that has become 0 is left out."""
    probes = {name: _moved_probe(container[name], moved) for name in _PROBES if name in container}
    numbers = ((port, moved.get(port["containerPort"], port["containerPort"])) for port in container.get("ports") or ())
    ports = [{**port, "containerPort": number} for port, number in numbers if number]
    return {**container, **probes, **({"ports": ports} if "ports" in container else {})}


def _moved_probe(probe: Mapping[str, Any], moved: Mapping[int, int]) -> dict[str, Any]:
    asked = {name: part for name, part in probe.items() if isinstance(part, Mapping) and "port" in part}
    return {**probe, **{name: {**part, "port": moved.get(part["port"], part["port"])} for name, part in asked.items()}}


def service_ports(component: Component, context: Context) -> Component:
    """Return the component with the ports of its Service (docs/kserve.md); raises InvalidSpec (``_check``)."""
    front = front_of(component)
    first, main = first_port(front), TLS_PORT if context.secret else SERVICE_PORT
    others = ((int(port["containerPort"]), port) for port in (front.get("ports") or ())[1:])
    every = ((main, first), *others)
    headless = context.config.service.service_cluster_ip_none
    protocols = [(is_grpc(port.get("name", "")), number) for number, port in every]
    ports = ServicePorts(
        every,
        main,
        rest=next((number for grpc, number in protocols if not grpc), None),
        grpc=next((number for grpc, number in protocols if grpc), None),
        in_address=f":{http_port(front)}" if headless else "",
        grpc_in_address=f":{first['containerPort']}" if headless else "",
    )
    _check(component, front, ports)
    return replace(component, ports=ports)


def _check(component: Component, front: Container, ports: ServicePorts) -> None:
    """Raise InvalidSpec for ports that are refused, or do not lead to the server.

    The API server refuses two ports of a container with one name, and two ports of a Service with one number.
    """
    for container in (component.server, *component.pod.get("containers", ())):
        named = [port for port in container.get("ports") or () if port.get("name")]
        names = Counter(port["name"] for port in named)
        if repeated := next((name for name, count in names.items() if count > 1), None):
            listed = ", ".join(str(port["containerPort"]) for port in named if port["name"] == repeated)
            raise InvalidSpec(
                f"container {container.get('name')} of the {component.kind} has several ports named "
                f"{one_line(repeated)}: {listed}; give each a name of its own, the runtime's included"
            )
    _check_told(component.server, component.kind)
    (mapped, main), *others = ports.every
    protocol = main.get("protocol", "TCP")
    numbers = [number for number, port in others if port.get("protocol", "TCP") == protocol]
    if main["containerPort"] != mapped and mapped in numbers:
        raise InvalidSpec(
            f"port {mapped} of the {component.kind} is not its first one, but the Service maps its own port "
            f"{mapped} to the first one; list {mapped} first, or use another port"
        )
    if front is not component.server:
        _check_told(front, component.kind)
        _check_apart(component.server, front)


def _check_told(container: Container, kind: str) -> None:
    """Raise InvalidSpec if the server is told a port that is none, is not known here, or is not listed."""
    for grpc in (False, True):
        listed, told = listed_ports(container, grpc=grpc), told_port(container, grpc=grpc)
        anywhere = (*listed, *listed_ports(container, grpc=not grpc))
        if told is None or (told.name == _VAGUE and anywhere):
            continue
        problem = None
        if told.text.isdigit() and not (told.number or (grpc and told.number == 0)):
            problem = f"which is not a port; write one from 1 to {_HIGHEST}"
        elif told.number and listed and told.number not in anywhere:
            numbers = ", ".join(map(str, listed))
            problem = f"but its ports list {numbers}; write one number in both places, or leave the ports out"
        elif told.text.startswith("$(") and not (grpc or anywhere):
            problem = "whose value is not known here; list its port"
        if problem:
            where = f"container {container.get('name') or CONTAINER_SERVER} of the {kind}"
            raise InvalidSpec(f"{where} is told {told.name} {one_line(told.text, 100)}, {problem}")


def _check_apart(server: Container, transformer: Container) -> None:
    """Raise InvalidSpec if a server and the transformer in its pod have one port: one of them could not start."""
    ports = {int(first_port(transformer)["containerPort"]), *known_ports(transformer)}
    if shared := ports & known_ports(server):
        flags = f"[--http_port=8000, --grpc_port=8001, --predictor_host=localhost:{http_port(server)}]"
        raise InvalidSpec(
            f"{CONTAINER_TRANSFORMER} and {CONTAINER_SERVER} share a network, and both have port {min(shared)}; give "
            f"the transformer others, as by args: {flags}"
        )
