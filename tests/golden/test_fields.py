"""What single fields do: which values of the children they change, and what people read about them.

A case of `fields/<topic>.yaml` or `messages/<topic>.yaml` has what the builders take for the service and its runtimes,
sections of the ConfigMap `inferenceservice-config`, and other objects; then what comes of it, which
`--rewrite-goldens` writes anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import a_runtime_body, a_service_body
from tests.support.outcomes import Outcome, changes, outcome_of
from tests.support.yaml_files import document

FIELDS, MESSAGES = (Path(__file__).parent / name for name in ("fields", "messages"))
Case = dict[str, Any]


def topics(folder: Path) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("topic", sorted(path.stem for path in folder.iterdir()))


def outcome(case: Case) -> Outcome:
    sections = case.get("config", {})
    data = {name: section if isinstance(section, str) else json.dumps(section) for name, section in sections.items()}
    return outcome_of(
        [
            a_service_body(**case.get("service", {})),
            *(a_runtime_body(**runtime) for runtime in case.get("runtimes", [{}])),
            {"kind": "ConfigMap", "data": data},
            *case.get("objects", ()),
        ]
    )


def said(outcome: Outcome) -> str | list[str]:
    """Return the reason and the message of a refusal, or what is ignored."""
    if outcome.refused is None:
        return list(outcome.ignored)
    return ": ".join(filter(None, (outcome.reason, outcome.refused)))


def shown(outcome: Outcome) -> Case:
    """Return the children by kind and name, and the URLs."""
    assert outcome.refused is None
    children = {f"{child['kind']} {child['metadata']['name']}": child for child in outcome.children}
    return {**children, "urls": list(outcome.urls)}


def check(file: Path, request: pytest.FixtureRequest, result: str, found: Callable[[Case], Any]) -> None:
    """Compare the result of every case with what its file says."""
    cases = document(file)
    today = {name: {**case, result: found(case)} for name, case in cases.items()}
    if request.config.getoption("--rewrite-goldens"):
        file.write_text(yaml.safe_dump(today, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None))
    assert document(file) == today


@topics(MESSAGES)
def test_what_is_said_about(topic: str, request: pytest.FixtureRequest) -> None:
    check(MESSAGES / f"{topic}.yaml", request, "said", lambda case: said(outcome(case)))


@topics(FIELDS)
def test_what_is_changed_by_fields_of(topic: str, request: pytest.FixtureRequest) -> None:
    """Each case is compared with the first one of its file, whose parts it has where it names no others."""
    file = FIELDS / f"{topic}.yaml"
    base = next(iter(document(file).values()))
    before = shown(outcome(base))

    check(file, request, "changes", lambda case: dict(changes(before, shown(outcome({**base, **case})))))
