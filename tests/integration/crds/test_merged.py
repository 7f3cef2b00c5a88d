"""An API server accepts what comes of ports, resources, privileges and images that a service and its runtime name."""

from __future__ import annotations

import pytest
import yaml

from tests.golden.test_fields import FIELDS, Case, outcome
from tests.support.apiserver import ApiServer

TOPICS = ("model-images", "ports", "ports-that-are-told", "privileges", "resources")
CASES = {
    f"{topic}: {name}": {**next(iter(cases.values())), **case}
    for topic in TOPICS
    for cases in [yaml.safe_load((FIELDS / f"{topic}.yaml").read_text())]
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_children_are_accepted(apiserver: ApiServer, case: Case) -> None:
    children = [
        {**child, "metadata": {**child["metadata"], "namespace": "default"}} for child in outcome(case).children
    ]

    stored = apiserver.dry_run(*children)

    assert [item["kind"] for item in stored] == [child["kind"] for child in children]
