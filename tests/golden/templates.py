"""The fields of pod templates that differ from those of the last release, and the list of them in the changelog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.plan.diff import differences
from tests.support.last_release import ROOT, Manifest, ReleasedCase, last_release
from tests.support.outcomes import Outcome, outcome_of

CHANGELOG = ROOT / "CHANGELOG.md"
HEADING = "Pod templates"


@cache
def outcomes() -> dict[str, tuple[ReleasedCase, Outcome]]:
    """What today's code makes of the last release's cases, with the runtimes of that release."""
    runtimes = tuple(map(parse_serving_runtime, last_release().runtimes))
    return {case.name: (case, outcome_of(case.documents, runtimes)) for case in last_release().cases}


def changed_paths() -> dict[str, list[str]]:
    """The paths in pod templates whose values differ, each with the cases that show it."""
    changed: dict[str, list[str]] = {}
    for name, (case, outcome) in outcomes().items():
        before, after = deployments(case.children), deployments(outcome.children)
        for path in sorted(
            {path for one in before.keys() & after.keys() for path in _differing(before[one], after[one])}
        ):
            changed.setdefault(path, []).append(name)
    return changed


def deployments(children: object) -> dict[str, Manifest]:
    assert isinstance(children, list | tuple)
    return {item["metadata"]["name"]: item for item in children if item["kind"] == "Deployment"}


def _differing(before: Manifest, after: Manifest) -> set[str]:
    old, new = before["spec"]["template"], after["spec"]["template"]
    return {str(item) for item in (*differences(old, new), *differences(new, old))}


def listed_paths(changelog: str) -> list[str]:
    """The paths in the section "Pod templates" of what is not released yet; `[*]` stands for any name."""
    unreleased = changelog.partition("## Unreleased\n")[2].partition("\n## ")[0]
    section = unreleased.partition(f"\n### {HEADING}\n")[2].partition("\n### ")[0]
    return list(_in_items(section))


def _in_items(section: str) -> Iterator[str]:
    """Yield the code spans before the colon of each item of the list."""
    for item in section.split("\n- ")[1:]:
        yield from re.findall(r"`([^`]+)`", item.partition(":")[0])


def lists(pattern: str, path: str) -> bool:
    """Whether a path of the changelog stands for this one: it is the same, or a part of the template around it."""
    expression = re.escape(pattern).replace(re.escape("[*]"), r"\[[^]]+\]")
    return re.match(rf"{expression}($|[.\[])", path) is not None
