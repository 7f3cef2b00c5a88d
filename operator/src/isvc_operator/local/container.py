"""A rendered container as a command of this machine. Pure.

Where an argument or a variable names a path of the container, it names a folder of this machine instead; where a flag
or a variable gives the container's port, it gives a free port; where one names a Service of this run, its place here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.local.addresses import ServiceAddress, move_addresses
from isvc_operator.local.errors import UnusableInput
from isvc_operator.local.objects import text_of
from isvc_operator.manifests import Container
from isvc_operator.resolve.storage.objects import Objects

LOOPBACK: Final = "127.0.0.1"

_PYTHON = ("python", "python3")
# What the image of the storage-initializer runs.
_INITIALIZER = ("python", "-m", "storage_initializer")
_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class LocalBindings:
    """What a container is given here; ``paths`` and ``ports`` lead from the container's to this machine's.

    ``objects`` are those that stand in the same files as the service; ``addresses`` are the Services that run already.
    """

    paths: Mapping[str, Path]
    ports: Mapping[int, int]
    scratch: Path
    termination_log: Path
    environment: Mapping[str, str]
    python: str
    objects: Objects = field(default_factory=dict)
    addresses: tuple[ServiceAddress, ...] = ()


@dataclass(frozen=True)
class Probe:
    """The server is ready when ``GET path`` succeeds or, without a path, when ``port`` takes a connection."""

    port: int
    path: str | None


@dataclass(frozen=True)
class Process:
    """A container as a command; ``env`` comes on top of this machine's environment."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str | None
    termination_log: Path
    probe: Probe | None


def plan_process(name: str, container: Container, place: LocalBindings) -> Process:
    """The container as a process called ``name``; raises UnusableInput where it needs what only a cluster has."""
    env = _environment(name, container, place)
    command = [_expand(_text(name, item), env) for item in (*_command(name, container), *container.get("args", ()))]
    working_dir = container.get("workingDir")
    return Process(
        name=name,
        command=_local_command(command, place),
        env=_local(env, place),
        working_dir=_move_paths(working_dir, place.paths) if working_dir else None,
        termination_log=place.termination_log,
        probe=_probe(name, container, place.ports),
    )


def _command(name: str, container: Container) -> tuple[str, ...]:
    command = tuple(container.get("command", ()))
    if not command and container["name"] == CONTAINER_INITIALIZER:
        command = _INITIALIZER
    if not command:
        raise UnusableInput(
            f"{name} has no command, and the entry point of its image is not known here; give the container a command "
            "that runs here as well (in the runtime, or where the service has it), such as [python, model.py]"
        )
    return command


def _local_command(command: Sequence[str], place: LocalBindings) -> tuple[str, ...]:
    """The command with this machine's paths and ports, and last its Python, whose own path must stay as it is."""
    local = [move_addresses(_move_paths(item, place.paths), place.addresses) for item in command]
    program, *arguments = _move_ports(local, place.ports)
    return (place.python if program in _PYTHON else program, *arguments)


def _environment(name: str, container: Container, place: LocalBindings) -> dict[str, str]:
    if container.get("envFrom"):
        raise UnusableInput(f"{name} takes variables from the cluster (envFrom); give them as env to run it here")
    env: dict[str, str] = {}
    for item in container.get("env", ()):
        variable = item["name"]
        if "valueFrom" not in item:
            env[variable] = _expand(_text(name, item.get("value") or ""), env)
        elif (text := text_of(item["valueFrom"], place.objects)) is not None:
            env[variable] = text
        elif variable not in place.environment:
            raise UnusableInput(
                f"{name} takes {variable} from the cluster (valueFrom); export it, or put the object that holds it "
                "into the file"
            )
    return env


def _local(env: Mapping[str, str], place: LocalBindings) -> dict[str, str]:
    """The container's variables with this machine's paths and ports, and what its surroundings would have been."""
    local = {name: move_addresses(_move_paths(value, place.paths), place.addresses) for name, value in env.items()}
    moved = {name: _move_port(name, value, place.ports) for name, value in local.items()}
    return {
        "PYTHONUNBUFFERED": "1",
        # What runs here is for this machine, not for its neighbours in the network.
        "HTTP_HOST": LOOPBACK,
        "TMPDIR": str(place.scratch),
        **moved,
        "TERMINATION_LOG": str(place.termination_log),
    }


def _text(name: str, value: Any) -> str:
    """The value, once it is known to be text, as Kubernetes wants it: YAML reads a bare 8080 as a number."""
    if not isinstance(value, str):
        raise UnusableInput(f"{name}: {value!r} among its command, args and env is no text; put it in quotes")
    return value


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Kubernetes' ``$(NAME)``; ``$$(NAME)`` and names that are not known stay as text."""

    def value(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else env.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def _move_paths(text: str, paths: Mapping[str, Path]) -> str:
    """Replace the container's paths where they stand as paths of their own: ``--dir=/mnt/models/a``, ``/a:/mnt``."""
    if not paths:
        return text
    longest_first = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    standing_alone = rf"""(?<![^=:,\s"'])({longest_first})(?![^/:,\s"'])"""
    return re.sub(standing_alone, lambda match: str(paths[match[1]]), text)


def _move_ports(command: Sequence[str], ports: Mapping[int, int]) -> list[str]:
    """Replace the values of flags whose name ends in ``port``, written ``--port=8080`` or ``--port 8080``."""
    moved = []
    for before, item in zip(("", *command), command, strict=False):
        flag, equals, value = item.rpartition("=")
        name = flag or before
        moved.append(flag + equals + _move_port(name, value, ports) if name.startswith("-") else item)
    return moved


def _move_port(name: str, value: str, ports: Mapping[int, int]) -> str:
    if name.lower().endswith("port") and value.isdigit():
        return str(ports.get(int(value), value))
    return value


def _probe(name: str, container: Container, ports: Mapping[int, int]) -> Probe | None:
    probe = container.get("readinessProbe")
    if probe is None:
        return None
    action = probe.get("httpGet") or probe.get("tcpSocket")
    if action is None:
        raise UnusableInput(f"the readinessProbe of {name} is neither httpGet nor tcpSocket; others are not run here")
    named = {item.get("name"): item["containerPort"] for item in container.get("ports", ())}
    port = named.get(action["port"], action["port"])
    path = action.get("path", "/") if "httpGet" in probe else None
    return Probe(ports.get(port, port), path)
