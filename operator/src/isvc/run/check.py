"""Checks files: what the API server would refuse, what the operator could not serve, and what has no effect. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, islice
from typing import Any, Final

from isvc.run.admission import refusals
from isvc.run.builtin_admission import builtin_refusals
from isvc.run.children import Rendered, render_services, runtimes_for
from isvc.run.documents import (
    NO_OBJECT,
    NO_SERVICE,
    DocumentKey,
    Documents,
    YamlText,
    ignored_lines,
    read_documents,
)
from isvc.run.downloads import refusals_of_download
from isvc.run.errors import Unserved
from isvc.run.mistake import Fault, Mistake
from isvc.run.objects import configuration_in
from isvc.run.place import NOWHERE, Located, Place, field_of, located, refused
from isvc_operator.api import inference_service
from isvc_operator.api.base import field_names
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.core_shapes import quantity
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_RUNTIME, ANNOTATION_STOP, CONFIG_MAP
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError, InvalidCredentials, InvalidSpec, Problem
from isvc_operator.ignored.walker import ignored_settings
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Container, Manifest, ServiceKey
from isvc_operator.resolve.ignored import ignored_parts, ignored_parts_of_runtime, missing_models, unread_settings
from isvc_operator.resolve.requested import is_stopped, model_of, references, storage_requests
from isvc_operator.resolve.runtime import ChosenRuntime, Runtimes, choose_runtime
from isvc_operator.resolve.storage.planning import choose_container
from isvc_operator.text import one_line

# What is left out of a line about a setting: its value, and what happens instead.
_SETTING: Final = re.compile(r"[\w.-]+(?= \(|:|$)")


class Severity(Enum):
    """What a finding means for the service.

    It is not created or not served; it depends on a secret that is in none of the files; it lacks something that its
    server reads; a part changes nothing; or nothing.
    """

    ERROR = "error"
    NOT_CHECKED = "not checked"
    MISSING = "missing"
    NO_EFFECT = "no effect"
    NOTE = "note"


@dataclass(frozen=True)
class CheckFinding:
    """A line about one object, or about a file, where that is, and the mistake that the line ends with, if any."""

    severity: Severity
    text: str
    place: Place = NOWHERE
    mistake: Mistake | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Refusals:
    """What of some files is not served: what people call it, and why, in lines."""

    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A line for those who have seen the others before; empty if nothing is refused."""
        return f"refused, for the reasons above: {one_line(', '.join(self.names))}" if self.names else ""

    def also(self, names: Iterable[str], lines: Iterable[str]) -> Refusals:
        """Return these and others, each once."""
        return Refusals(tuple(dict.fromkeys((*self.names, *names))), tuple(dict.fromkeys((*self.lines, *lines))))


@dataclass(frozen=True)
class Checked:
    """The services that can be resolved, with their children, what was found, and the file of each object.

    ``unusable`` are the services that are refused all the same, because of their children, for example.
    """

    rendered: tuple[Rendered, ...]
    findings: tuple[CheckFinding, ...]
    files: Mapping[DocumentKey, str] = field(default_factory=dict)
    unusable: frozenset[ServiceKey] = frozenset()

    @property
    def usable(self) -> list[Rendered]:
        """The services that nothing refuses."""
        return [item for item in self.rendered if item.key not in self.unusable]

    @property
    def refused(self) -> Refusals:
        """What is not served, though it is in the files."""
        found = (item for item in self.findings if item.severity in (Severity.ERROR, Severity.NOT_CHECKED))
        refused = sorted(found, key=lambda item: item.place.file)
        of_runtimes = sorted(item.key.name for item in self.rendered if item.key in self.unusable)
        names = (*(_called(item.place) for item in refused), *of_runtimes)
        return Refusals().also(names, (item.text for item in refused))

    def texts(self, *severities: Severity) -> list[str]:
        """Return the lines of these severities."""
        return [finding.text for finding in self.findings if finding.severity in severities]


_CPUS, _BYTES = 10_000, 2**16  # more than any machine has, and less than any process needs
_CONTAINER: Final = re.compile(r"spec\.(?:template\.spec\.)?(?:initC|c)ontainers?(?:\[\d+\])?\.")
_RUNTIMES: Final = ("ServingRuntime", "ClusterServingRuntime")
_WITHOUT_RUNTIME: Final = ("NoSupportingRuntime", "RuntimeNotRecognized")


def check(
    texts: Iterable[YamlText],
    namespace: str,
    *,
    installed: Sequence[ServingRuntime],
    settings: Mapping[str, str] | None,
    tls: bool = True,
    needs_service: bool = False,
) -> Checked:
    """Check the files; ``settings`` is the data of ``inferenceservice-config``, by default that ConfigMap in them.

    ``tls``: pods serve TLS if that is asked for. ``needs_service``: files without a service are an error.
    """
    given, problems = read_documents(texts, namespace, lambda body: chain(refusals(body), builtin_refusals(body)))
    if not problems and given == Documents():
        problems.append(Located(NO_OBJECT))
    elif not problems and needs_service and not given.services:
        problems.append(Located(NO_SERVICE))
    data: Mapping[str, str] = {}
    config = OperatorConfig()
    try:
        data = configuration_in(given.objects) if settings is None else settings
        config = parse_config(data)
    except ConfigError as error:
        problems.append(Located(str(error), _of_settings(given, settings)))
    rendered, invalid = render_services(given, installed, config, tls=tls)
    of_children = list(_refused(given, rendered))
    invalid = [other for error in invalid for other in _with_others(error, given, installed)]
    of_partial = list(_of_partial(given, installed, config, {problem.place for problem in problems}))
    if any(problem.place.kind in _RUNTIMES for problem in problems):  # which may be what these lack
        invalid = [error for error in invalid if error.reason not in _WITHOUT_RUNTIME]
        of_partial = [finding for finding in of_partial if finding.severity is not Severity.ERROR]
    of_runtimes = list(_refused_containers(given))
    told = set(map(_in_container, of_runtimes))  # which the pods of each service have as well
    findings = [
        *_findings(Severity.NO_EFFECT, _unread(data, _of_settings(given, settings))),
        *_findings(Severity.NO_EFFECT, without_effect(given, rendered, config)),
        *_findings(Severity.MISSING, _missing(given, rendered)),
        *_findings(Severity.NOTE, _left_out(given)),
        *_findings(Severity.ERROR, problems),
        *_findings(Severity.ERROR, (line for line in of_children if _in_container(line) not in told)),
        *_findings(Severity.ERROR, of_runtimes),
        *of_partial,
        *(
            CheckFinding(_severity(error, given, config), one_line(str(error)), _of_service(given, error))
            for error in invalid
        ),
    ]
    unusable = _unusable([line.place for line in (*problems, *of_children)], rendered, namespace)
    return Checked(tuple(rendered), tuple(findings), given.files, unusable)


def _unusable(refused: Sequence[Place], rendered: Iterable[Rendered], namespace: str) -> frozenset[ServiceKey]:
    """Return the services that are refused; where the configuration is, all are."""
    if any((place.kind, place.name) == ("ConfigMap", CONFIG_MAP) for place in refused):
        return frozenset(item.key for item in rendered)
    services = (place for place in refused if place.kind == inference_service.KIND)
    return frozenset(ServiceKey(place.namespace or namespace, place.name) for place in services)


def _called(place: Place) -> str:
    """Return what people call an object that is refused, or the file in which it is."""
    kind = "" if place.kind == inference_service.KIND else place.kind
    return " ".join(filter(None, (kind, place.name))) if place.name else place.file


def _findings(severity: Severity, lines: Iterable[Located]) -> Iterator[CheckFinding]:
    for line in lines:
        yield CheckFinding(severity, one_line(line.text), line.place, line.mistake)


def _missing(given: Documents, rendered: Iterable[Rendered]) -> Iterator[Located]:
    for item in rendered:
        kind, metadata = item.service.kind, item.service.metadata
        lines = missing_models(item.resolved)
        yield from located(f"{kind} {metadata.name}: ", lines, given.place(kind, metadata.namespace, metadata.name))


def _of_settings(given: Documents, settings: Mapping[str, str] | None) -> Place:
    """Return where the settings are: in the last ConfigMap of their name, unless they are given."""
    keys = [key for key in given.files if (key.kind, key.name) == ("ConfigMap", CONFIG_MAP)]
    if settings is None and keys:
        return given.place(*keys[-1])
    return Place(kind="ConfigMap", name=CONFIG_MAP)


def _unread(data: Mapping[str, str], place: Place) -> Iterator[Located]:
    for line in ignored_settings(data):
        found = _SETTING.match(line)
        yield Located(f"ConfigMap {CONFIG_MAP}: {line}", replace(place, field=f"data.{found[0]}" if found else ""))


def _of_service(given: Documents, error: Unserved) -> Place:
    metadata = error.service.metadata
    place = given.place(error.service.kind, metadata.namespace, metadata.name)
    return replace(place, field=field_of(error.why))


def _severity(error: Unserved, given: Documents, config: OperatorConfig) -> Severity:
    """Secrets are seldom kept beside services: the cluster may have what is missing here."""
    lacks = error.reason == InvalidCredentials.reason and _lacks_secret(error.service, given, config)
    return Severity.NOT_CHECKED if lacks else Severity.ERROR


def _lacks_secret(service: InferenceService, given: Documents, config: OperatorConfig) -> bool:
    """Whether the service's storage refers to a secret that is in none of the files."""
    objects, requests = given.objects_in(service.metadata.namespace), storage_requests(service)
    accounts = references(requests, config.credentials, {})
    try:
        named = references(requests, config.credentials, {account: objects.get(account) for account in accounts})
    except InvalidCredentials:  # more than are read
        return False
    return any(reference not in objects for reference in named - accounts)


def paths_of_a_machine(checked: Checked) -> Iterator[CheckFinding]:
    """Yield a note for each path that a pod copies a model from, unless a storage container of its own may have it."""
    for item in checked.rendered:
        plans = (component.storage for component in item.resolved.components)
        copied = (source for plan in plans if plan and not plan.chosen for source in plan.copied)
        key = DocumentKey(item.service.kind, item.key.namespace, item.key.name)
        for source in dict.fromkeys(source for source in copied if source.is_absolute):
            yield CheckFinding(
                Severity.NOTE,
                f"{key.kind} {key.name}: storageUri {source.shown} is a path in the container of the "
                "storage-initializer, which has no files of this machine; for a cluster, copy the model to a claim or "
                "a bucket, and name that",
                Place(file=checked.files.get(key, ""), kind=key.kind, namespace=key.namespace, name=key.name),
            )


def without_models(checked: Checked) -> Checked:
    """Return the services that lack a model refused: a server that ends at once would be started again and again.

    A path without a scheme is one of this machine: whether it exists says the storage-initializer.
    """
    missing = [item for item in checked.findings if item.severity is Severity.MISSING]
    lacking = [item for item in missing if item.place.field]
    others = (item for item in checked.findings if item not in missing)
    findings = (*others, *(replace(item, severity=Severity.ERROR) for item in lacking))
    keys = frozenset(ServiceKey(item.place.namespace, item.place.name) for item in lacking)
    return replace(checked, findings=findings, unusable=checked.unusable | keys)


def without_effect(given: Documents, rendered: Iterable[Rendered], config: OperatorConfig) -> Iterator[Located]:
    """Yield a line for each part of the objects that has no effect, and for each host that belongs to another."""
    found = {_key(item.service): item.resolved for item in rendered}
    for service in given.services:
        resolved = found.get(_key(service))
        prefix = f"{service.kind} {service.metadata.name}: "
        place = given.place(service.kind, service.metadata.namespace, service.metadata.name)
        yield from located(prefix, ignored_parts(service, resolved, config), place)
        for host, holder in resolved.hosts.taken.items() if resolved else ():
            yield Located(f"{prefix}host {host} belongs to {service.kind} {holder}", place)
    chosen = [resolved.chosen.runtime for resolved in found.values() if resolved.chosen]
    for runtime in (*given.runtimes, *(item for item in chosen if item not in given.runtimes)):
        prefix = f"{runtime.kind} {runtime.metadata.name}: "
        place = given.place(runtime.kind, runtime.metadata.namespace, runtime.metadata.name)
        yield from located(prefix, (line.removeprefix(prefix) for line in ignored_parts_of_runtime(runtime)), place)


def _of_partial(
    given: Documents, installed: Sequence[ServingRuntime], config: OperatorConfig, told: Collection[Place]
) -> Iterator[CheckFinding]:
    """Yield what can be known of services that are refused, beside why they are."""
    for service, place in given.partial:
        prefix = f"{service.kind} {place.name}: "
        chosen, problems = _of_runtime_and_storage(service, runtimes_for(place.namespace, given, installed), given)
        for error in problems:
            yield CheckFinding(Severity.ERROR, one_line(f"{prefix}{error}"), place)
        ignored = [*ignored_parts(service, None, config)]
        ignored += unread_settings(service, chosen, config.logger) if chosen else ()
        lines = located(prefix, ignored, place)
        yield from _findings(Severity.NO_EFFECT, (line for line in lines if line.place not in told))


def _of_runtime_and_storage(
    service: InferenceService, runtimes: Runtimes, given: Documents
) -> tuple[ChosenRuntime | None, list[InvalidSpec]]:
    """Return the runtime, and what is wrong with it and with where the model is, each whatever else is wrong."""
    model, chosen, problems = model_of(service.spec.predictor), None, []
    try:
        if model and model.model_format.name:
            chosen = choose_runtime(model, runtimes, service.metadata.annotations.get(ANNOTATION_RUNTIME))
    except InvalidSpec as error:
        problems.append(error)
    try:
        for request in storage_requests(service).values():
            if sources := [source for source in request.sources if not source.is_image]:
                choose_container(sources, request.container, given.storage_containers)
    except InvalidSpec as error:
        problems.append(error)
    return chosen, problems


def _with_others(error: Unserved, given: Documents, installed: Sequence[ServingRuntime]) -> Iterator[Unserved]:
    """Yield why a service cannot be served, and what else it does not depend on."""
    yield error
    runtimes = runtimes_for(error.service.metadata.namespace, given, installed)
    for other in _of_runtime_and_storage(error.service, runtimes, given)[1]:
        if str(other) not in error.why:
            yield Unserved(error.service, Problem.of(other))


def _refused(given: Documents, rendered: Iterable[Rendered]) -> Iterator[Located]:
    """Yield why the API server would refuse children, or the storage-initializer what it is given."""
    for item in rendered:
        service = item.service
        place = given.place(service.kind, service.metadata.namespace, service.metadata.name)
        for child in item.children:
            yield from refused_child(child, place)
            for line in refusals_of_download(child, item.objects, item.config.storage_initializer.image):
                yield Located(f"{service.kind} {service.metadata.name}: the storage-initializer: {line}", place)


def refused_child(child: Manifest, service: Place) -> list[Located]:
    """Return why the API server would refuse an object that is made of a service."""
    called = f"{child['kind']} {child['metadata']['name']}"
    mistakes = (replace(mistake, child=called) for mistake in islice(builtin_refusals(child), NAMED))
    return refused(f"{service.kind} {service.name}", mistakes, service)


def _refused_containers(given: Documents) -> Iterator[Located]:
    """Yield the fields of containers that runtimes and storage containers bring, and that no pod may have."""
    for runtime in given.runtimes:
        for index, container in enumerate(runtime.spec.containers):
            yield from _in_every_pod(runtime, f"spec.containers[{index}]", container, given)
    for storage in given.storage_containers:
        yield from _in_every_pod(storage, "spec.container", storage.spec.container, given)


def _in_container(line: Located) -> tuple[str, str]:
    """Return the field that is wrong in a container, without whose it is, and why."""
    mistake = line.mistake or Mistake("", line.text)
    return _CONTAINER.sub("", mistake.path), f"{mistake.what}{mistake.hint}"


def _in_every_pod(
    item: ServingRuntime | ClusterStorageContainer, field: str, container: Container, given: Documents
) -> Iterator[Located]:
    """Yield lines for a container. What it lacks may come from a service; unknown fields of its own are left out."""
    known = {name: value for name, value in container.items() if name in field_names(ContainerFields)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "any", **known}]}}
    place = given.place(item.kind, item.metadata.namespace, item.metadata.name)
    mistakes = (
        replace(mistake, path=mistake.path.replace("spec.containers[0]", field))
        for mistake in builtin_refusals(pod)
        if mistake.fault is not Fault.REQUIRED
    )
    yield from refused(f"{item.kind} {item.metadata.name}", islice(mistakes, NAMED), place)


def _key(service: InferenceService) -> tuple[str | None, str]:
    return service.metadata.namespace, service.metadata.name


def _left_out(given: Documents) -> Iterator[Located]:
    yield from ignored_lines(given)
    for service in given.services:
        if is_stopped(service):
            place = given.place(service.kind, service.metadata.namespace, service.metadata.name)
            yield Located(
                f"{service.kind} {service.metadata.name}: stopped by its annotation {ANNOTATION_STOP}; left out",
                replace(place, field=f"metadata.annotations[{ANNOTATION_STOP}]"),
            )
        place = given.place(service.kind, service.metadata.namespace, service.metadata.name)
        unlikely = islice(_unlikely_amounts(service.as_dict()["spec"], "spec"), NAMED)
        yield from located(f"{service.kind} {service.metadata.name}: ", unlikely, place)


def _unlikely_amounts(value: Any, path: str) -> Iterator[str]:
    """Yield the amounts of cpu and memory that Kubernetes takes and nobody means, each with what may be meant."""
    for name, item in (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    ):
        place = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}"
        amount = quantity(item) if path.endswith((".limits", ".requests")) else None
        number = str(item).rstrip("mM")
        if amount and name == "cpu" and amount > _CPUS:
            yield f"{place}: {item} is {amount:f} CPUs; write {number}m for thousandths of one"
        elif amount and name == "memory" and amount < _BYTES:
            unit = "Mi" if "m" in str(item) else "Gi"
            yield f"{place}: {item} is {amount:f} bytes; write {number}{unit} if that is meant"
        else:
            yield from _unlikely_amounts(item, place)
