"""Templates, and how texts and values are written in them. Pure.

All that templates print is from outside: names, logs, messages. Control characters and marks of text direction are made
visible, then HTML is escaped; there is no way around it but a template's own markup.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from isvc import limits
from isvc.dashboard.charts import CHARTS
from isvc.dashboard.states import ShownState
from isvc.dashboard.tabs import TABS
from isvc.view.headlines import brief, headline
from isvc.view.times import parse_time
from isvc.view.values import ComponentView, ConditionView, ContainerState, ContainerView, HealthStatus, Hop, Purpose
from isvc.yaml_text import Dumper
from isvc_operator.manifests import LAST_APPLIED, NOT_WRITTEN, Manifest, ServiceKey
from isvc_operator.text import visible

HERE = Path(__file__).parent
THIS_MACHINE: Final = "this machine"  # what a dashboard of ``isvc run`` shows

_COLORED = re.compile(  # a text that is not closed is one up to the end of its line: no part is looked at again
    r"(?P<comment>^#.*$)"
    r"|(?P<key>^[ -]*[^\s#'\"{}\[\],:][^\n:]*(?=:(?: |$))|\"(?:[^\"\\\n]|\\.)*\"(?=:))"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"?|(?<= )'(?:[^'\n]|'')*'?"
    r"|(?<=[:-] \|)[-+\d]*\n+(?P<indent> +)[^\n]*(?:\n(?:(?P=indent)[^\n]*)?)*)"
    r"|(?P<value>(?<=[\s\[])(?:-?\d[\d.]*(?:[eE][+-]?\d+)?|true|false|null)(?=,?$))",
    re.MULTILINE,
)
_TAB = "\ue009"  # stands for a tab, with which libyaml writes no text as a block
_HOURS = 3 * 3600.0
_MAPS = ("labels", "annotations")


KEYS = {
    "/": "search",
    "j k": "the next service, the previous one",
    f"1 … {len(TABS)}": "the tabs of a service",
    "u": "all services",
    "e E": "the next error of a log, the previous one",
    "Ctrl Enter": "send the request",
    "?": "these keys",
}


def templates(*, where: str) -> Environment:
    """Return the templates of the pages; ``where`` names what they show."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    made.filters.update(
        anchor=anchor, path=path, duration=duration, seconds=seconds, amount=amount, yaml=as_yaml,
        tone=tone, container_text=container_text, container_tone=container_tone, container_end=container_end,
        brief=brief, headline=headline, state=state, colored=colored,
        condition_tone=condition_tone, steps=steps, clock=clock, after=after,
    )  # fmt: skip
    made.globals.update(where=where, THIS_MACHINE=THIS_MACHINE, keys=KEYS, charts=CHARTS)
    return made


def _finalize(value: Any) -> Any:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def anchor(names: Sequence[str]) -> str:
    """Return an id for an element that is about what has these names; names can hold anything."""
    return "x" + hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]


def path(key: ServiceKey, page: str = "") -> str:
    """Return the path of a service's page."""
    return f"/services/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}" + (f"/{page}" if page else "")


def duration(value: float | None) -> str:
    """Write seconds as people do: 0.4 s, 12 s, 3 min 5 s, 2 h 3 min, 4 d."""
    if value is None:
        return ""
    whole = round(value)
    if value < 9.95:
        return f"{value:.1f} s".replace(".0 s", " s")
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    if whole < 86400:
        return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
    return f"{whole // 86400} d"


def seconds(value: float | None) -> str:
    """Write the duration of a request: 0.4 ms, 12 ms, 1.3 s."""
    if value is None:
        return "–"
    if value < 0.01:
        return f"{value * 1000:.1f} ms"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def amount(value: float | None) -> str:
    """Write a rate or a count with two or three digits."""
    if value is None:
        return "–"
    if value < 0.005:
        return "0"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def as_yaml(manifest: Any) -> str:
    """Return an object, or a part of one, as YAML: without what the API server adds, and the values of a Secret.

    One that is too large, or nested too deeply, is not shown: to write it would keep all pages waiting.
    """
    try:
        is_object = isinstance(manifest, Mapping) and "metadata" in manifest
        written = _written(manifest) if is_object else _plain(manifest)
        if (size := len(json.dumps(written, default=str))) > limits.DASHBOARD_OBJECT_BYTES:
            return f"# {size:,} bytes are too many to be shown; kubectl get --output=yaml writes them\n"
        text: str = yaml.dump(written, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
        return text.replace(_TAB, "\t")
    except RecursionError:
        return "# nested too deeply to be shown\n"


def _written(manifest: Manifest) -> dict[str, Any]:
    metadata = {name: value for name, value in manifest.get("metadata", {}).items() if name not in NOT_WRITTEN}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    metadata = {**metadata, "labels": metadata.get("labels"), "annotations": annotations}
    written = {name: value for name, value in manifest.items() if name != "status"}
    written["metadata"] = {name: value for name, value in metadata.items() if value or name not in _MAPS}
    if manifest.get("kind") == "Secret":
        written |= {
            part: dict.fromkeys(manifest[part], "(hidden)") for part in ("data", "stringData") if part in manifest
        }
    return {name: _plain(value) for name, value in written.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        text = value.encode(errors="replace").decode()  # no half of a character
        return text.replace("\t", _TAB) if "\n" in text else text
    return value


def colored(text: str) -> Markup:
    """Return YAML or JSON with its keys, texts and values marked."""

    def marked(found: re.Match[str]) -> str:
        return f'<span class="of-{found.lastgroup}">{escape(found[0])}</span>'

    shown, parts, end = visible(text), list[str](), 0
    for found in _COLORED.finditer(shown):
        parts += [escape(shown[end : found.start()]), marked(found)]
        end = found.end()
    return Markup("".join([*parts, escape(shown[end:])]))  # noqa: S704 - each part is escaped


def tone(health: HealthStatus | ShownState) -> str:
    """Return the class of a health; each has a sign of its own, so that none depends on its color."""
    return health.name.lower()


def state(component: ComponentView) -> HealthStatus | ShownState:
    """Return how a component is, as its sign shows it."""
    return ShownState.ROLLING if component.is_rolling else component.health


def container_text(container: ContainerView) -> str:
    """Return what a container does or did, in a few words."""
    if container.state is ContainerState.RUNNING:
        if container.ready:
            return "ready"
        return "copying the model" if container.purpose is Purpose.STORAGE else "running"
    if container.state is ContainerState.TERMINATED:
        if container.exit_code == 0:
            took = _between(container.started_at, container.ended_at)
            return "done" + (f" in {duration(took)}" if took is not None else "")
        return f"ended with exit code {container.exit_code}" if container.exit_code is not None else "ended"
    return container.reason or "waiting"


def container_end(container: ContainerView) -> str:
    """Return how a container that waits or runs again has ended before: its reason and its exit code."""
    last = container.last
    if last is None or container.state is ContainerState.TERMINATED:
        return ""
    said = [last.reason, f"exit code {last.exit_code}" if last.exit_code is not None else ""]
    return f"last ended: {text}" if (text := ", ".join(filter(None, said))) else ""


def container_tone(container: ContainerView) -> str:
    """Return the class of a container's state."""
    if container.state is ContainerState.WAITING:
        return "failed" if container.exit_code else "waiting"
    if container.state is ContainerState.TERMINATED:
        return "failed" if container.exit_code else "done"
    return "ready" if container.ready else "starting"


def condition_tone(condition: ConditionView) -> str:
    """Return the class of a condition's status; of others than Ready and its parts, True may be good or bad."""
    if not condition.type.endswith("Ready"):
        return "neutral"
    return {"True": "true", "False": "false"}.get(condition.status, "unknown")


@dataclass(frozen=True)
class HopShare:
    """A place on the request path, and the share of the requests that come to it, in per cent."""

    name: str
    kind: str
    weight: int | None


def steps(hops: Sequence[Hop]) -> list[list[HopShare]]:
    """Return the places on a request path, step by step; those that share the requests are of one step."""
    kinds = {hop.name: hop.kind for hop in hops}
    reached: set[str] = set()
    step = [HopShare(hop.name, hop.kind, None) for hop in hops[:1]]
    found = []
    while step:
        found.append(step)
        reached |= {place.name for place in step}
        here = [hop for hop in hops if hop.target and hop.name in {place.name for place in step}]
        following = {hop.target: hop.weight for hop in here if hop.target not in reached}
        step = [HopShare(name, kinds.get(name, "Service"), weight) for name, weight in following.items()]
    return found


def clock(at: str) -> str:
    """Write a time as its day and minute, for a page without scripts."""
    return at[:16].replace("T", " ")


def after(at: str, begins: datetime) -> str:
    """Write a time as the duration since ``begins``; as the time itself if that is hours."""
    then = parse_time(at)
    since = (then - begins).total_seconds() if then else math.inf
    if abs(since) > _HOURS:
        return clock(at)
    return f"+{duration(since)}" if since >= 0 else f"−{duration(-since)}"


def _between(start: str | None, end: str | None) -> float | None:
    first, last = parse_time(start), parse_time(end)
    return (last - first) / timedelta(seconds=1) if first and last else None
