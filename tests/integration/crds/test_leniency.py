"""What is taken, and refused, as by KServe's API with its webhook; here no webhook runs."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.parsing import InvalidObject, parse_serving_runtime, parse_storage_container
from isvc_operator.controller.gather import read_service
from isvc_operator.plan.diff import differences
from tests.support.api_words import in_our_words
from tests.support.apiserver import ApiServer, Refused
from tests.support.kserves_leniency import QUANTITIES, REFUSED, TAKEN
from tests.support.rendered import children_of

Document = dict[str, Any]
SERVICES = {case: document for case, (document, _) in TAKEN.items() if document["kind"] == KIND}


def problem_with(stored: Document) -> str | None:
    """What the operator says of a stored object."""
    if stored["kind"] == KIND:
        _, problem = read_service(stored)
        return problem.message if problem else None
    try:
        (parse_storage_container if stored["kind"] == "ClusterStorageContainer" else parse_serving_runtime)(stored)
    except InvalidObject as error:
        return str(error)
    return None


@pytest.mark.parametrize(("document", "_what_kserve_does"), TAKEN.values(), ids=TAKEN)
def test_what_kserve_takes_is_taken(apiserver: ApiServer, document: Document, _what_kserve_does: str) -> None:
    (stored,) = apiserver.dry_run(document)
    assert problem_with(stored) is None


@pytest.mark.parametrize(("document", "_what_kserve_does"), QUANTITIES.values(), ids=QUANTITIES)
def test_a_number_comes_back_as_it_was_written(
    apiserver: ApiServer, namespace: str, document: Document, _what_kserve_does: str
) -> None:
    assert apiserver.apply(namespace, document)["spec"] == document["spec"]


@pytest.mark.parametrize("document", SERVICES.values(), ids=SERVICES)
def test_its_children_are_taken_and_stay_as_they_are(apiserver: ApiServer, document: Document) -> None:
    children = [
        {**child, "metadata": {**child["metadata"], "ownerReferences": []}}
        for child in children_of(document)
        if child["kind"] in ("Deployment", "HorizontalPodAutoscaler")
    ]
    stored = apiserver.dry_run(*children)
    differing = [str(it) for before, after in zip(children, stored, strict=True) for it in differences(after, before)]
    assert differing in ([], ["spec.behavior.scaleUp.tolerance"])  # this version of Kubernetes leaves that out


@pytest.mark.parametrize(("document", "place", "said"), REFUSED.values(), ids=REFUSED)
def test_what_kserve_refuses_is_refused_with_its_place(
    apiserver: ApiServer, document: Document, place: str, said: str
) -> None:
    try:
        (stored,) = apiserver.dry_run(document)
    except Refused as error:
        answer: str | None = in_our_words(str(error))
    else:
        answer = problem_with(stored)
    assert answer is not None
    assert f"{place}: " in answer
    assert said in answer
