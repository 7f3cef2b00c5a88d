"""Checks files: what the API server would refuse, what the operator could not serve, and what has no effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_STOP, CONFIG_MAP
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError, InvalidCredentials, InvalidSpec
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.local.admission import refusals
from isvc_operator.local.children import Rendered, render_services
from isvc_operator.local.documents import NO_OBJECT, Documents, Text, ignored_lines, read_documents
from isvc_operator.local.objects import configuration_in
from isvc_operator.resolve.ignored import ignored_parts, ignored_parts_of_runtime
from isvc_operator.resolve.service import is_stopped
from isvc_operator.text import one_line


class Severity(Enum):
    """What a finding means for the service.

    It is not created or not served; it depends on a secret that is in none of the files; a part changes nothing; or
    nothing.
    """

    ERROR = "error"
    NOT_CHECKED = "not checked"
    NO_EFFECT = "no effect"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """A line about one object, or about a file."""

    severity: Severity
    text: str


@dataclass(frozen=True)
class Checked:
    """The services that can be served, with their children, and what was found."""

    rendered: tuple[Rendered, ...]
    findings: tuple[Finding, ...]

    def texts(self, *severities: Severity) -> list[str]:
        """Return the lines of these severities."""
        return [finding.text for finding in self.findings if finding.severity in severities]


def check(
    texts: Iterable[Text],
    namespace: str,
    *,
    installed: Sequence[ServingRuntime],
    settings: Mapping[str, str] | None,
    tls: bool = True,
) -> Checked:
    """Check the files; ``settings`` is the data of ``inferenceservice-config``, by default that ConfigMap in them.

    ``tls``: pods serve TLS if that is asked for.
    """
    given, problems = read_documents(texts, namespace, refusals)
    if not problems and given == Documents():
        problems.append(NO_OBJECT)
    data: Mapping[str, str] = {}
    config = OperatorConfig()
    try:
        data = configuration_in(given.objects) if settings is None else settings
        config = parse_config(data)
    except ConfigError as error:
        problems.append(str(error))
    rendered, invalid = render_services(given, installed, config, tls=tls)
    findings = [
        *(Finding(Severity.NO_EFFECT, f"ConfigMap {CONFIG_MAP}: {it}") for it in ignored_settings(data)),
        *(Finding(Severity.NO_EFFECT, line) for line in without_effect(given, rendered, config)),
        *(Finding(Severity.NOTE, line) for line in _left_out(given)),
        *(Finding(Severity.ERROR, line) for line in problems),
        *(Finding(_severity(error), str(error)) for error in invalid),
    ]
    return Checked(tuple(rendered), tuple(Finding(item.severity, one_line(item.text)) for item in findings))


def _severity(error: InvalidSpec) -> Severity:
    """Secrets are seldom kept beside services: the cluster may have what is missing here."""
    return Severity.NOT_CHECKED if error.reason == InvalidCredentials.reason else Severity.ERROR


def without_effect(given: Documents, rendered: Iterable[Rendered], config: OperatorConfig) -> Iterator[str]:
    """Yield a line for each part of the objects that has no effect, and for each host that belongs to another."""
    found = {_key(item.service): item.resolved for item in rendered}
    for service in given.services:
        resolved = found.get(_key(service))
        name = f"{service.kind} {service.metadata.name}"
        yield from (f"{name}: {part}" for part in ignored_parts(service, resolved, config))
        for host, holder in resolved.hosts.taken.items() if resolved else ():
            yield f"{name}: host {host} belongs to {service.kind} {holder}"
    for runtime in given.runtimes:
        yield from ignored_parts_of_runtime(runtime)


def _key(service: InferenceService) -> tuple[str | None, str]:
    return service.metadata.namespace, service.metadata.name


def _left_out(given: Documents) -> Iterator[str]:
    yield from ignored_lines(given)
    for service in given.services:
        if is_stopped(service):
            yield f"{service.kind} {service.metadata.name}: stopped by its annotation {ANNOTATION_STOP}; left out"
