"""Every case of the suite, by the model directory that it is asked of."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.case import Case
from tests.conformance.cases import envelopes, loading, requests, results, settings, stock, store, values

CASES: Mapping[str, tuple[Case, ...]] = {
    "": (*loading.CASES, *requests.CASES, *results.CASES, *envelopes.NONE),
    "stock": (*stock.CASES, *results.TENSORS),
    "stages": loading.STAGES,
    "kserve": envelopes.KSERVE,
    "kservev2": envelopes.KSERVEV2,
    "json": envelopes.JSON_INSTANCES,
    "body": envelopes.BODY,
    "settings": settings.CASES,
    "store": store.CASES,
    "values": values.CASES,
}
