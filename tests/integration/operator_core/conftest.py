"""An operator on a real API server, and a namespace for each test."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3.exceptions import HTTPError

from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace
from tests.support.operator_process import OPERATOR, WATCHES, operator
from tests.support.permissions import EVERYONES, granted_by, needed_for, of_agents, shipped_roles

ROOT = Path(__file__).parents[3]
_SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
_numbers = itertools.count(1)
_made: list[tuple[ApiServer, str]] = []


@pytest.fixture(scope="module", autouse=True)
def services_removed() -> Iterator[None]:
    """The next module's operator reconciles no services of this one, of which some are never right."""
    yield
    while _made:
        server, name = _made.pop()
        with contextlib.suppress(HTTPError):  # the server was the module's own, and is gone
            server.send("DELETE", _SERVICES.format(name))


@pytest.fixture(scope="module")
def operator_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator") / "operator.log"


@pytest.fixture(scope="module")
def running_operator(apiserver: ApiServer, operator_log: Path) -> Iterator[None]:
    install_runtime(apiserver)
    since = apiserver.position()
    with operator(apiserver, operator_log):
        yield
    # It had the permissions of an administrator; the shipped roles allow whatever the tests made it do.
    events = of_agents((OPERATOR, WATCHES), apiserver.audit_events(since))
    assert needed_for(events) - EVERYONES - granted_by(*shipped_roles()) == set()


@pytest.fixture
def namespace(apiserver: ApiServer) -> Namespace:
    return new_namespace(apiserver)


@pytest.fixture
def another_namespace(apiserver: ApiServer) -> Namespace:
    return new_namespace(apiserver)


def new_namespace(server: ApiServer) -> Namespace:
    """A namespace that no other test uses."""
    name = f"team-{next(_numbers)}"
    server.create_namespace(name)
    _made.append((server, name))
    return Namespace(server, name)
