"""What people read about a service: why it is refused, or else what of it has no effect.

A case of `messages/<topic>.yaml` has the fields that the builders take for the service and its runtimes, sections of
the ConfigMap `inferenceservice-config`, and other objects; then what is said, which `--rewrite-goldens` writes anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import a_runtime_body, a_service_body
from tests.support.outcomes import outcome_of

MESSAGES = Path(__file__).parent / "messages"


def said_of(case: Mapping[str, Any]) -> str | Sequence[str]:
    """Return the reason and the message of a refusal, or what is ignored."""
    sections = case.get("config", {})
    data = {name: section if isinstance(section, str) else json.dumps(section) for name, section in sections.items()}
    outcome = outcome_of(
        [
            a_service_body(**case.get("service", {})),
            *(a_runtime_body(**runtime) for runtime in case.get("runtimes", [{}])),
            {"kind": "ConfigMap", "data": data},
            *case.get("objects", ()),
        ]
    )
    if outcome.refused is None:
        return list(outcome.ignored)
    return ": ".join(filter(None, (outcome.reason, outcome.refused)))


@pytest.mark.parametrize("topic", sorted(path.stem for path in MESSAGES.iterdir()))
def test_what_is_said_about(topic: str, request: pytest.FixtureRequest) -> None:
    file = MESSAGES / f"{topic}.yaml"
    cases = yaml.safe_load(file.read_text())
    found = {name: {**case, "said": said_of(case)} for name, case in cases.items()}

    if request.config.getoption("--rewrite-goldens"):
        file.write_text(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None))
    assert found == cases or request.config.getoption("--rewrite-goldens")
