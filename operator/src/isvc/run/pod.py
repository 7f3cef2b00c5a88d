"""Turns a rendered Deployment into the processes of one pod on this machine. Pure.

Its volumes become folders inside a private one, which is removed at the end of the run; a claim becomes a link to the
folder of ``--pvc``. Paths are kept short, because servers create Unix sockets in them, whose paths are limited to 103
characters. Folders that are not volumes begin with a dot, which the name of a volume cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from isvc.run.addresses import ServiceAddress
from isvc.run.container import LOOPBACK, LocalBindings, Machine, Process, plan_process
from isvc.run.errors import UnusableInput
from isvc.run.objects import files_of
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.names import (
    CONTAINER_INITIALIZER,
    CONTAINER_MODELCAR,
    CONTAINER_SERVER,
    CONTAINER_TRANSFORMER,
    LABEL_COMPONENT,
    LABEL_SERVICE,
    PREDICTOR,
    PVC_MOUNT_ROOT,
)
from isvc_operator.manifests import Container, Volume
from isvc_operator.resolve.ports import DEFAULT_GRPC_PORT, first_port, known_ports
from model_archive.archive import ENDINGS
from model_archive.formats import SUFFIXES


@dataclass(frozen=True)
class PodPlan:
    """Processes, and the ``folders``, ``files`` and ``links`` to create before they start.

    All of it is in ``folder``. ``ports`` maps the ports of the containers to those of this machine; ``grace`` is the
    time in seconds that its processes have to end.
    """

    folder: Path
    folders: tuple[Path, ...]
    files: Mapping[Path, bytes]
    links: Mapping[Path, Path]
    ports: Mapping[int, int]
    init: tuple[Process, ...]
    servers: tuple[Process, ...]
    grace: float = 30


def plan_pod(deployment: Mapping[str, Any], machine: Machine) -> PodPlan:
    """Return the pod of a Deployment that an API server would take (``builtin_admission``).

    Raises UnusableInput if it needs something that only a cluster has.
    """
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    spec = without_nulls(template["spec"])
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for container in spec.get("initContainers", ()):
        _check_ends(container)
    used = [port for container in spec["containers"] for port in _ports(container)]
    ports = {port: machine.free_port() for port in dict.fromkeys((*used, DEFAULT_GRPC_PORT))}
    machine = replace(machine, addresses=(*_own_addresses(ports), *machine.addresses))

    def planned(container: Container) -> Process:
        bindings = _bindings(container, volumes, ports, machine)
        process = plan_process(f"{machine.prefix}{_process_name(labels, container)}{machine.tag}", container, bindings)
        process = replace(
            process, names={str(path): mount for mount, path in bindings.paths.items() if mount != PVC_MOUNT_ROOT}
        )
        for port in _ports(container)[:1]:
            _check_port(process, ports[port])
        return process

    claims = {claim for volume in volumes.values() if (claim := _claim(volume))}
    links = {_claims_root(machine) / claim: _folder_of_claim(claim, machine) for claim in claims}
    init = tuple(planned(container) for container in spec.get("initContainers", ()))
    linked = {str(link): str(target) for link, target in links.items()}
    copies = {folder: _folder_of(source) for source, folder in copied(init, links)}
    return PodPlan(
        folder=machine.folder,
        folders=(
            _scratch(machine),
            _termination(machine),
            *(_folder(name, volumes, machine) for name, volume in volumes.items() if "emptyDir" in volume),
        ),
        files={
            machine.folder / name / file: content
            for name, volume in volumes.items()
            for file, content in (files_of(volume, machine.objects) or {}).items()
        },
        links=links,
        ports=ports,
        init=tuple(replace(process, names={**process.names, **linked}) for process in init),
        servers=tuple(replace(planned(container), names={**linked, **copies}) for container in spec["containers"]),
        grace=spec.get("terminationGracePeriodSeconds", PodPlan.grace),
    )


def copied(init: Iterable[Process], links: Mapping[Path, Path]) -> Iterator[tuple[Path, str]]:
    """Yield the models of this machine that a pod gets copies of, each with the folder of its copy."""
    claims = {link.name: target for link, target in links.items()}
    for process in init:
        if process.container == CONTAINER_INITIALIZER:
            for uri, folder in pairwise(process.command):
                parts = urlsplit(uri)
                if parts.scheme == "pvc" and parts.netloc in claims:
                    yield claims[parts.netloc] / parts.path.lstrip("/"), folder
                elif parts.scheme == "file":
                    yield Path(uri.removeprefix("file://")), folder


def _folder_of(source: Path) -> str:
    """Return the folder that was copied, or that of the file."""
    return str(source.parent if source.name.endswith((*SUFFIXES, *ENDINGS)) else source)


def claims_of(deployment: Mapping[str, Any]) -> set[str]:
    """Return the claims that the pods of a Deployment have as volumes."""
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
    return {claim for volume in volumes if (claim := _claim(volume))}


def _check_ends(container: Container) -> None:
    if container["name"].startswith(CONTAINER_MODELCAR):
        raise _image_needed(container["image"])
    if container.get("restartPolicy") == "Always":
        raise UnusableInput(
            f"init container {container['name']!r} keeps running beside the server (restartPolicy: Always), which only "
            "a cluster supports; leave it out to run the service here"
        )


def _image_needed(image: str) -> UnusableInput:
    return UnusableInput(
        f"the model is in the image {image}, which this machine does not run; copy its folder /models out of it "
        f"(docker create --name model {image} sh; docker cp model:/models .) and write its path as the storageUri"
    )


def _process_name(labels: Mapping[str, str], container: Container) -> str:
    """Return ``SERVICE/CONTAINER``, with the component in between if it is not the predictor."""
    return f"{_component_name(labels)}/{container['name']}"


def _component_name(labels: Mapping[str, str]) -> str:
    component = labels[LABEL_COMPONENT]
    return labels[LABEL_SERVICE] if component == PREDICTOR else f"{labels[LABEL_SERVICE]}/{component}"


def _bindings(
    container: Container, volumes: Mapping[str, Volume], ports: Mapping[int, int], machine: Machine
) -> LocalBindings:
    name = container["name"]
    paths = {
        mount["mountPath"].rstrip("/"): _folder(mount["name"], volumes, machine) / mount.get("subPath", "")
        for mount in container.get("volumeMounts", ())
    }
    if name == CONTAINER_INITIALIZER:
        paths[PVC_MOUNT_ROOT] = _claims_root(machine)
    return LocalBindings(
        machine=machine,
        paths=paths,
        ports=ports,
        scratch=paths.get("/tmp", _scratch(machine)),  # noqa: S108 - the container's
        termination_log=_termination(machine) / name,
    )


def _own_addresses(ports: Mapping[int, int]) -> Iterable[ServiceAddress]:
    """Return the names by which the containers of a pod, which share a network, reach each other."""
    return (ServiceAddress(name, "", LOOPBACK, ports) for name in ("localhost", LOOPBACK))


def _ports(container: Container) -> list[int]:
    """Return the ports of a container, which are replaced by free ones; the first one receives the requests."""
    if container["name"] not in (CONTAINER_SERVER, CONTAINER_TRANSFORMER):
        return [port["containerPort"] for port in container.get("ports", ())]
    first = first_port(container)["containerPort"]
    return [first, *sorted(known_ports(container) - {first})]


def _check_port(process: Process, port: int) -> None:
    """Check that the process gets its first port, which receives the requests; others may be unused."""
    if str(port) not in " ".join((*process.command, *process.env.values())):
        raise UnusableInput(
            f"{process.name} does not get its port from a flag or a variable, so it cannot use a free one; give the "
            "container a flag such as --port=8080 or a variable such as PORT"
        )


def _folder(name: str, volumes: Mapping[str, Volume], machine: Machine) -> Path:
    volume = volumes[name]
    if "emptyDir" in volume or files_of(volume, machine.objects) is not None:
        return machine.folder / name
    if claim := _claim(volume):
        return _claims_root(machine) / claim
    if "image" in volume:
        raise _image_needed(volume["image"]["reference"])
    kind = next((field for field in volume if field != "name"), "nothing")
    raise UnusableInput(
        f"volume {name!r} is of kind {kind}; this machine supports emptyDir, claims (--pvc), and the secrets and "
        "ConfigMaps in the file"
    )


def _claim(volume: Volume) -> str | None:
    return volume["persistentVolumeClaim"]["claimName"] if "persistentVolumeClaim" in volume else None


def _claims_root(machine: Machine) -> Path:
    return machine.folder / ".claims"


def _scratch(machine: Machine) -> Path:
    return machine.folder / ".tmp"


def _termination(machine: Machine) -> Path:
    return machine.folder / ".termination"


def _folder_of_claim(claim: str, machine: Machine) -> Path:
    if claim not in machine.claims:
        given = f" (given: {', '.join(sorted(machine.claims))})" if machine.claims else ""
        raise UnusableInput(f"the model is in the claim {claim!r}; name a folder for it: --pvc {claim}=DIR{given}")
    return machine.claims[claim]
