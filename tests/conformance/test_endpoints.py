"""Every endpoint of ours, asked of a model that TorchServe's stock handler runs; and TorchServe's own gRPC API."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Record
from tests.conformance.endpoints import ENDPOINTS, METHODS, Endpoint, Method
from tests.conformance.torchserve_grpc import CASES, GrpcCase
from tests.support.runtimes import OURS, TORCHSERVE

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("endpoint", [pytest.param(endpoint, id=endpoint.template) for endpoint in ENDPOINTS])
def test_an_endpoint_answers(recorded: Record, kind: str, endpoint: Endpoint) -> None:
    answer = recorded(kind, "kserve").endpoints[endpoint.template]

    assert (answer.status, answer.document) == (endpoint.status, endpoint.document)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("method", [pytest.param(method, id=method.name) for method in METHODS])
def test_a_grpc_method_answers(recorded: Record, kind: str, method: Method) -> None:
    assert recorded(kind, "kserve").methods[method.name] == method.response


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.feature) for case in CASES])
def test_a_method_of_torchserves_own_answers(recorded: Record, kind: str, case: GrpcCase) -> None:
    expected = case.answer if kind == TORCHSERVE or case.ours is None else case.ours

    assert recorded(kind, "").torchserve_grpc[case.feature] == expected
