"""Services as lines of cells: a table, a tree, one line for each change. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from isvc.commands.output import Cell, Style, Styled
from isvc.view.diagnosis import Finding, diagnose, log_tail
from isvc.view.headlines import headline, is_traceback
from isvc.view.times import parse_time
from isvc.view.values import (
    OLDER_SERVE,
    ROLLING_OUT,
    ComponentView,
    ContainerState,
    ContainerView,
    DownloadProgress,
    Failure,
    HealthStatus,
    Moment,
    PodView,
    ServiceView,
)
from isvc_operator.text import block, one_line

Line = Sequence[Cell]

HEADER: Final = ("NAME", "HEALTH", "STAGE", "PODS", "AGE", "URL OR CAUSE")
_STYLES: Final = {
    HealthStatus.READY: Style.OK,
    HealthStatus.STARTING: Style.WARNING,
    HealthStatus.FAILED: Style.ERROR,
    HealthStatus.STOPPED: Style.FAINT,
    HealthStatus.TERMINATING: Style.FAINT,
}
_BAR: Final = 20  # characters
_STAGE: Final = 40  # bytes of a reason
_CAUSE: Final = 160  # bytes of a cause in a line
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def row(service: ServiceView, now: datetime, *, with_namespace: bool, with_url: bool) -> list[Cell]:
    """Return the row of a service below HEADER, which NAMESPACE comes before if there are several.

    `with_url`: whether its address tells it apart from another of its name, which another run serves.
    """
    summary = _summary(service)
    url = one_line(service.url) if with_url else ""
    with_address = summary if url in summary else f"{url}: {summary}".removesuffix(": ")
    wanted = sum(item.wanted for item in service.components)
    available = sum(item.available for item in service.components)
    return [
        *([service.namespace] if with_namespace else []),
        service.name,
        health_cell(service),
        one_line(_stage(service), _STAGE),
        f"{available}/{wanted}",
        age(service.created_at, now),
        "; ".join(_some(with_address) + _some(_waited(service, now))),
    ]


def table(
    services: Sequence[ServiceView], now: datetime, *, with_namespace: bool
) -> tuple[list[str], list[list[Cell]]]:
    """Return the header and the rows of services."""
    header = [*(["NAMESPACE"] if with_namespace else []), *HEADER]
    urls = {(service.namespace, service.name, service.url) for service in services if service.url}
    runs = Counter((namespace, name) for namespace, name, _ in urls)
    return header, [
        row(service, now, with_namespace=with_namespace, with_url=runs[service.namespace, service.name] > 1)
        for service in services
    ]


def change(service: ServiceView, now: datetime) -> Line:
    """Return one line that tells how a service is now."""
    return [
        now.strftime("%H:%M:%S"),
        f"{service.namespace}/{service.name}",
        health_cell(service),
        *_some(_stage(service)),
        _summary(service),
    ]


def one_service(service: ServiceView, now: datetime, *, with_history: bool) -> Iterator[Line]:
    """Yield the lines of a service: the tree, and the history if it is asked for."""
    yield from tree(service, now)
    if with_history:
        yield from history_lines(service)


def tree(service: ServiceView, now: datetime) -> Iterator[Line]:
    """Yield the lines of a service: its components, their pods, and the containers of these."""
    yield head(service, f"in namespace {service.namespace}", now)
    facts = {
        "url": service.url,
        "runtime": f"{service.runtime.name}: {service.runtime.why}".rstrip(": ") if service.runtime else "",
        "age": age(service.created_at, now),
        "path": _request_path(service),
    }
    for name, text in facts.items():
        if text:
            yield ["  ", Styled(f"{name:8}", Style.FAINT), one_line(text)]
    for index, component in enumerate(service.components):
        yield from _component(component, now, last=index == len(service.components) - 1)
    if service.failure:
        yield [""]
        yield from finding_lines(service.failure)
        return
    for index, note in enumerate(_notes(service)):
        if index == 0:
            yield [""]
        yield [_label("warning", Style.WARNING), f"{one_line(note.reason)}: {_headline(note.cause)}"]


def history_lines(service: ServiceView) -> Iterator[Line]:
    """Yield the history, each entry with the time that has passed since the service was created."""
    yield [""]
    for item in service.history:
        times = f" ({item.count} times)" if item.count > 1 else ""
        at = parse_time(item.at)
        since = age(service.created_at, at) if at else ""
        yield [
            Styled(f"{one_line(item.at)[:19]} {'+' + since:>7}", Style.FAINT),
            one_line(item.about),
            Styled(one_line(item.reason), Style.WARNING if item.warning else Style.STRONG),
            _headline(item.message) + times,
        ]


def finding_lines(finding: Failure) -> Iterator[Line]:
    """Yield the reason, the cause, the place, the evidence, the last log lines that say more, and the fix.

    Of a traceback, the cause is what was raised, and the rest is the log.
    """
    if is_traceback(finding.cause):
        finding = replace(finding, cause=headline(finding.cause), log=finding.log or finding.cause)
    yield [_label("reason", Style.ERROR), one_line(finding.reason)]
    yield [_label("cause", Style.ERROR), _paragraph(finding.cause)]
    if finding.location:
        code = f" (exit code {finding.exit_code})" if finding.exit_code is not None else ""
        yield [_label("where", Style.STRONG), finding.location + code]
    for index, text in enumerate(finding.evidence if isinstance(finding, Finding) else ()):
        yield [_label("" if index else "evidence", Style.STRONG), one_line(headline(text))]
    for index, text in enumerate(block(log_tail(finding)).splitlines()):
        yield [_label("" if index else "log", Style.STRONG), f"| {text}"]
    if finding.fix:
        yield [_label("fix", Style.OK), finding.fix]


def rollout_line(moment: Moment) -> Line:
    """Return when and why the pods were last replaced."""
    return [_label("rollout", Style.STRONG), one_line(f"{moment.at}: {moment.message}")]


def _label(text: str, style: Style) -> Styled:
    return Styled(f"{text:9}", style)


def _paragraph(text: str) -> str:
    return "\n          ".join(text.strip().splitlines())


def age(since: str, now: datetime) -> str:
    """Return how long ago a time was, in its two largest units."""
    at = parse_time(since)
    if at is None:
        return ""
    seconds = max(0, int((now - at).total_seconds()))
    largest = next((index for index, (unit, _) in enumerate(_UNITS) if seconds >= unit), len(_UNITS) - 1)
    parts: list[str] = []
    for unit, name in _UNITS[largest : largest + 2]:
        count, seconds = divmod(seconds, unit)
        if count or not parts:
            parts.append(f"{count}{name}")
    return "".join(parts)


def head(service: ServiceView, where: str, now: datetime) -> Line:
    """Return the first line about a service; of a start, how long it has taken and may take."""
    text = _waited(service, now)
    return [Styled(service.name, Style.STRONG), where, health_cell(service), *([f"({text})"] if text else [])]


def _waited(service: ServiceView, now: datetime) -> str:
    """Return when the container was started that a start waits for, and when it counts as failed; empty if unknown."""
    component = next((item for item in service.components if item.health is HealthStatus.STARTING), None)
    if service.health is not HealthStatus.STARTING or component is None:
        return ""
    since = next((pod.stage_since for pod in component.pods if pod.current and pod.stage_since), None)
    until = parse_time(component.fails_at)
    left = f"counts as failed in {age(now.isoformat(), until)}" if until and until > now else ""
    return ", ".join(filter(None, [f"started {age(since, now)} ago" if since else "", left]))


def _component(component: ComponentView, now: datetime, *, last: bool) -> Iterator[Line]:
    branch, rest = ("└─", "   ") if last else ("├─", "│  ")
    counts = f"{component.available} of {component.wanted} available"
    share = f", {component.traffic} % of requests" if component.traffic not in (None, 100) else ""
    stage = component.stage if component.health is not HealthStatus.READY else ""
    older = f", {OLDER_SERVE}" if component.fails_beside_older else ""
    yield [
        branch,
        component.kind,
        component.name,
        health_cell(component),
        *_some(stage),
        f"({counts}{share}{older})",
    ]
    for index, pod in enumerate(component.pods):
        yield from _pod(pod, now, rest, last=index == len(component.pods) - 1)


def _pod(pod: PodView, now: datetime, indent: str, *, last: bool) -> Iterator[Line]:
    branch, rest = ("└─", "   ") if last else ("├─", "│  ")
    stage = pod.failure.reason if pod.failure else pod.stage
    notes = [*_some(pod.node), age(pod.created_at, now), *([] if pod.current else ["older template"])]
    yield [
        f"{indent}{branch}",
        "pod",
        pod.name,
        health_cell(pod),
        *_some(stage),
        f"({', '.join(filter(None, notes))})",
    ]
    if pod.progress:
        yield [f"{indent}{rest}  ", Styled(bar(pod.progress), Style.WARNING)]
    for index, container in enumerate(pod.containers):
        yield [f"{indent}{rest}{'└─' if index == len(pod.containers) - 1 else '├─'}", *_container(container)]


def _container(container: ContainerView) -> Iterator[Cell]:
    yield container.name
    style = Style.ERROR if container.exit_code else Style.OK if container.ready else Style.FAINT
    if container.state is ContainerState.TERMINATED and not container.exit_code:
        style = Style.FAINT
    yield Styled(container.state.value, style)
    notes = [
        container.reason,
        f"exit code {container.exit_code}" if container.exit_code else "",
        f"{container.restarts} restart{'s' * (container.restarts != 1)}" if container.restarts else "",
    ]
    if text := ", ".join(filter(None, notes)):
        yield f"({text})"


def bar(progress: DownloadProgress) -> str:
    """Return a bar with the figures of a download."""
    figures = [
        f"{progress.percent} % of {progress.size}" if progress.percent is not None else progress.size,
        progress.rate,
        f"{progress.seconds_left} s left" if progress.seconds_left is not None else "",
    ]
    text = ", ".join(filter(None, figures))
    if progress.percent is None:
        return text
    full = _BAR * progress.percent // 100
    return f"{'█' * full}{'░' * (_BAR - full)} {text}"


def _summary(service: ServiceView) -> str:
    if service.failure:
        older = f"{OLDER_SERVE}: " if any(item.fails_beside_older for item in service.components) else ""
        return one_line(older + headline(service.failure.cause), _CAUSE)
    if service.is_rolling:
        return service.rollout
    if service.health is HealthStatus.STARTING:
        progress = [bar(pod.progress) for item in service.components for pod in item.pods if pod.progress]
        return _headline(progress[0] if progress else _first(service).cause)
    return one_line(service.url) if service.health is HealthStatus.READY else ""


def _headline(text: str) -> str:
    return one_line(headline(text), _CAUSE)


def _stage(service: ServiceView) -> str:
    """Return the stage of a start, the reason of a failure, or that of the first warning of a service that serves."""
    return (service.failure or _first(service)).reason


def _first(service: ServiceView) -> Failure:
    """Return the first finding; an empty one of a service that has none."""
    return next(iter(diagnose(service).findings), Failure(reason="", cause=""))


def _notes(service: ServiceView) -> list[Finding]:
    """Return what is worth knowing of a service beside its stage."""
    return [item for item in diagnose(service).findings if item.reason != service.stage]


def _request_path(service: ServiceView) -> str:
    """Return the places on the request path, with the weights of several targets."""
    steps: list[str] = []
    for name in dict.fromkeys(hop.name for hop in service.request_path):
        weights = [
            f"{hop.target} {hop.weight} %"
            for hop in service.request_path
            if hop.name == name and hop.weight is not None
        ]
        steps.append(f"{name} ({', '.join(weights)})" if weights else name)
    return " → ".join(steps)


def _some(text: str) -> list[str]:
    return [one_line(text)] if text else []


def health_cell(item: ServiceView | ComponentView | PodView) -> Styled:
    """Return the word for how a service, a component or a pod is."""
    if not isinstance(item, PodView) and item.is_rolling:
        return Styled(ROLLING_OUT, Style.WARNING)
    return Styled(item.health.value, _STYLES[item.health])
