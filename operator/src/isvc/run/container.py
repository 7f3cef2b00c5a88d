"""Turns a rendered container into a command on this machine. Pure.

In arguments and variables, paths of the container are replaced by local folders, its ports by free ports, and the names
of Services of this run by their local addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from isvc.extras import PROGRAMS
from isvc.run.addresses import ServiceAddress, localize_addresses
from isvc.run.errors import UnusableInput
from isvc.run.objects import text_of
from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.manifests import Container
from isvc_operator.resolve.ports import DEFAULT_GRPC_PORT
from isvc_operator.resolve.storage.plan import Objects

LOOPBACK: Final = "127.0.0.1"

_PYTHON = ("python", "python3")
# What the image of the storage-initializer runs.
_INITIALIZER = ("python", "-m", "storage_initializer")
_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class Machine:
    """The environment of a pod: its own ``folder``, and the folders of ``--pvc`` in ``claims``.

    ``objects`` are those in the same files as the service; ``addresses`` are those of its Services that the pod calls.
    ``images`` has the commands of ``--image``. ``prefix`` and ``tag`` tell the names of processes from those of other
    namespaces and pods.
    """

    folder: Path
    claims: Mapping[str, Path]
    environment: Mapping[str, str]
    python: str
    free_port: Callable[[], int]
    objects: Objects = field(default_factory=dict)
    addresses: tuple[ServiceAddress, ...] = ()
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefix: str = ""
    tag: str = ""


@dataclass(frozen=True)
class LocalBindings:
    """Local counterparts of what a container uses: ``paths`` and ``ports`` map the container's to the machine's."""

    machine: Machine
    paths: Mapping[str, Path]
    ports: Mapping[int, int]
    scratch: Path
    termination_log: Path


@dataclass(frozen=True)
class Probe:
    """A probe of a container with the defaults of Kubernetes; times are in seconds.

    ``action`` has the field ``exec``, ``httpGet``, ``tcpSocket`` or ``grpc``, with a port or a command of this machine.
    """

    action: Mapping[str, Any]
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    successes: int = 1
    failures: int = 3


@dataclass(frozen=True)
class Process:
    """A container as a command; ``env`` is added to this machine's environment.

    ``name`` is for people, ``container`` is that of the pod. ``names`` has folders of its copies, and how people call
    each.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str | None
    termination_log: Path
    container: str = ""
    readiness: Probe | None = None
    liveness: Probe | None = None
    startup: Probe | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """Return a text of the process with the paths that people know."""
        for folder, name in self.names.items():
            text = text.replace(folder, name)
        return text


def plan_process(name: str, container: Container, bindings: LocalBindings) -> Process:
    """Return the container as a process; raises UnusableInput if it needs something that only a cluster has."""
    env = _environment(name, container, bindings)
    command = [
        _expand(_text(name, item), env) for item in (*_command(name, container, bindings), *container.get("args", ()))
    ]
    working_dir = container.get("workingDir")
    return Process(
        name=name,
        command=_local_command(command, bindings),
        env=_local(env, bindings),
        working_dir=_localize_paths(working_dir, bindings.paths) if working_dir else None,
        termination_log=bindings.termination_log,
        container=container["name"],
        readiness=_probe(name, "readinessProbe", container, bindings),
        liveness=_probe(name, "livenessProbe", container, bindings),
        startup=_probe(name, "startupProbe", container, bindings),
    )


def _command(name: str, container: Container, bindings: LocalBindings) -> tuple[str, ...]:
    """Return the command of ``--image``, which wins over that of the container, or else the container's own."""
    image = container.get("image", "")
    for named in (image, _without_tag(image)):
        if named in bindings.machine.images:
            return bindings.machine.images[named]
    command = tuple(container.get("command", ()))
    if not command and container["name"] == CONTAINER_INITIALIZER:
        command = _INITIALIZER
    if not command:
        raise UnusableInput(
            f"{name} has no command, and the entry point of its image is not known here; give it with the flag "
            f"--image '{image}=python model.py', or give the container a command that works on "
            "this machine as well (in the runtime or the service), such as [python, model.py]"
        )
    return command


def _without_tag(image: str) -> str:
    """Return the image without its tag and digest; a colon before a slash belongs to the registry's port."""
    name = image.partition("@")[0]
    before, _, tag = name.rpartition(":")
    return before if before and "/" not in tag else name


def _local_command(command: Sequence[str], bindings: LocalBindings) -> tuple[str, ...]:
    """Replace paths and ports, and then the program ``python``, whose own path must not be replaced."""
    local = [localize_addresses(_localize_paths(item, bindings.paths), bindings.machine.addresses) for item in command]
    program, *arguments = _localize_ports(local, bindings.ports)
    if program not in _PYTHON:
        return (program, *arguments)
    # What lies in the working folder, which may be a stranger's model, must not replace our modules.
    flags = ("-P",) if program_of_ours(arguments) else ()
    return (bindings.machine.python, *flags, *arguments)


def program_of_ours(arguments: Sequence[str]) -> str | None:
    """Return the program of ours that Python runs with these arguments; a user's own may lie in the working folder."""
    flags = list(takewhile(lambda word: word.startswith("-"), arguments))
    module = arguments[len(flags)] if flags[-1:] == ["-m"] and len(flags) < len(arguments) else ""
    program = module.partition(".")[0]
    return program if program in PROGRAMS else None


def _environment(name: str, container: Container, bindings: LocalBindings) -> dict[str, str]:
    if container.get("envFrom"):
        raise UnusableInput(f"{name} takes variables from the cluster (envFrom); write them as env to run it here")
    env: dict[str, str] = {}
    for item in container.get("env", ()):
        variable = item["name"]
        if "valueFrom" not in item:
            env[variable] = _expand(_text(name, item.get("value") or ""), env)
        elif (text := text_of(item["valueFrom"], bindings.machine.objects)) is not None:
            env[variable] = text
        elif variable not in bindings.machine.environment:
            raise UnusableInput(
                f"{name} takes {variable} from the cluster (valueFrom); export it, or put the object that contains it "
                "into the file"
            )
    return env


def _local(env: Mapping[str, str], bindings: LocalBindings) -> dict[str, str]:
    """Replace paths and ports in the container's variables, and add those that its environment would set."""
    local = {
        name: localize_addresses(_localize_paths(value, bindings.paths), bindings.machine.addresses)
        for name, value in env.items()
    }
    localized = {name: _localize_port(name, value, bindings.ports) for name, value in local.items()}
    # Servers that no flag tells their port for gRPC would all take the same one.
    grpc = {"GRPC_PORT": str(bindings.ports[DEFAULT_GRPC_PORT])} if DEFAULT_GRPC_PORT in bindings.ports else {}
    return {
        **_package_cache(bindings.machine.environment),
        "PYTHONUNBUFFERED": "1",
        # The server must not be reachable from other machines.
        "HTTP_HOST": LOOPBACK,
        "TMPDIR": str(bindings.scratch),
        **grpc,
        **localized,
        "TERMINATION_LOG": str(bindings.termination_log),
    }


def _package_cache(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable for the user's folder in which the next run finds the packages of archives."""
    home = environment.get("HOME")
    caches = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    folder = environment.get("PACKAGE_CACHE") or (f"{caches}/isvc/packages" if caches else "")
    return {"PACKAGE_CACHE": folder} if folder else {}


def _text(name: str, value: Any) -> str:
    """Return the value if it is a string, as Kubernetes requires: YAML reads a bare 8080 as a number."""
    if not isinstance(value, str):
        raise UnusableInput(f"{name}: {value!r} in its command, args or env is not a string; put it in quotes")
    return value


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Expand ``$(NAME)`` as Kubernetes does; ``$$(NAME)`` and unknown names are not expanded."""

    def value(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else env.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def _localize_paths(text: str, paths: Mapping[str, Path]) -> str:
    """Replace the container's paths, also inside of a text: ``--dir=/mnt/models/a``, ``/a:/mnt``."""
    if not paths:
        return text
    longest_first = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    standing_alone = rf"""(?<![^=:,\s"'])({longest_first})(?![^/:,\s"'])"""
    return re.sub(standing_alone, lambda match: str(paths[match[1]]), text)


def _localize_ports(command: Sequence[str], ports: Mapping[int, int]) -> list[str]:
    """Replace the values of flags whose name ends in ``port``, written ``--port=8080`` or ``--port 8080``."""
    localized = []
    for before, item in zip(("", *command), command, strict=False):
        flag, equals, value = item.rpartition("=")
        name = flag or before
        localized.append(flag + equals + _localize_port(name, value, ports) if name.startswith("-") else item)
    return localized


def _localize_port(name: str, value: str, ports: Mapping[int, int]) -> str:
    if name.lower().endswith("port") and value.isdigit():
        return str(ports.get(int(value), value))
    return value


def _probe(name: str, field: str, container: Container, bindings: LocalBindings) -> Probe | None:
    probe = container.get(field)
    if probe is None:
        return None
    where = f"the {field} of {name}"
    kind = next(kind for kind in ("exec", "httpGet", "tcpSocket", "grpc") if kind in probe)
    action = probe[kind]
    local = (
        {"command": _local_command([_text(where, item) for item in action["command"]], bindings)}
        if kind == "exec"
        else {"port": _port(where, action["port"], container, bindings)}
    )
    return Probe(
        {kind: {**action, **local}},
        initial_delay=probe.get("initialDelaySeconds", Probe.initial_delay),
        period=max(1, probe.get("periodSeconds", Probe.period)),
        timeout=max(1, probe.get("timeoutSeconds", Probe.timeout)),
        successes=max(1, probe.get("successThreshold", Probe.successes)),
        failures=max(1, probe.get("failureThreshold", Probe.failures)),
    )


def _port(name: str, port: int | str, container: Container, bindings: LocalBindings) -> int:
    """Return the port of this machine for one of the container, which may have a name, or be a number in quotes."""
    named = {item["name"]: item["containerPort"] for item in container.get("ports", ()) if "name" in item}
    number = named.get(port, port)
    if isinstance(number, str):
        if not number.isascii() or not number.isdigit() or not 1 <= int(number[:6]) <= 65535:
            known = ", ".join(named) or "none"
            raise UnusableInput(f"{name} asks port {number!r}, which the container does not name; it names {known}")
        number = int(number)
    return bindings.ports.get(number, number)
