"""The v1 and v2 protocols: every endpoint of ours, asked of a model that TorchServe's stock handler runs."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Record
from tests.conformance.endpoints import ENDPOINTS, METHODS, Endpoint, Method
from tests.support.runtimes import OURS

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
