"""Every child of whole services, as files: `cases/<name>/input.yaml` becomes `cases/<name>/children.yaml`.

An input is an InferenceService and, if the case needs them, runtimes, what its storage refers to, and the ConfigMap
`inferenceservice-config`. The shipped runtimes are always there, the optional ones too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isvc.run.documents import parse_documents
from isvc.run.files import read_runtimes
from tests.support.outcomes import outcome_of
from tests.support.yaml_files import documents

CASES = Path(__file__).parent / "cases"
OPTIONAL = Path(__file__).parents[2] / "manifests" / "runtimes-kserve"
SHIPPED = parse_documents([*read_runtimes(None), *read_runtimes(OPTIONAL)], "default").runtimes


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_the_children_of(case: str, check_golden: Callable[[Path, list[dict[str, Any]]], None]) -> None:
    outcome = outcome_of(documents(CASES / case / "input.yaml"), SHIPPED)

    assert outcome.refused is None
    check_golden(CASES / case / "children.yaml", list(outcome.children))
