"""Each kind of server is asked everything once, one server at a time; tests compare what was recorded."""

from __future__ import annotations

import functools
import http.client
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import archives, torchserve_grpc
from tests.conformance.batches import BATCHES
from tests.conformance.case import predictions
from tests.conformance.cases import CASES
from tests.conformance.endpoints import ENDPOINTS, METHODS, call
from tests.support.runtimes import OURS, Answer, Request, Runtime


@dataclass(frozen=True)
class Recording:
    """What one server said: to each case, to requests that came at once, and of itself at the end."""

    cases: Mapping[str, Answer]
    request_id: Answer
    batches: Mapping[str, Sequence[Answer]]
    metrics: str
    endpoints: Mapping[str, Answer] = field(default_factory=dict)
    methods: Mapping[str, Any] = field(default_factory=dict)
    torchserve_grpc: Mapping[str, Sequence[str]] = field(default_factory=dict)


# Never the same twice, so no case.
REQUEST_ID = predictions("probe", x_do="request_id")

Record = Callable[[str, str], Recording]


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The suite's model directories, by envelope."""
    return archives.build(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="session")
def recorded(directories: Mapping[str, Path]) -> Record:
    """The recording of one kind of server over one model directory; a server that fails is started once only."""

    @functools.cache
    def attempt(kind: str, envelope: str) -> Recording | BaseException:
        try:
            return _record(kind, envelope)
        except (AssertionError, OSError) as error:
            return error

    def record(kind: str, envelope: str) -> Recording:
        if isinstance(attempted := attempt(kind, envelope), BaseException):
            raise attempted
        return attempted

    def _record(kind: str, envelope: str) -> Recording:
        models = {archive.model for archive in archives.DIRECTORIES[envelope]}
        with Runtime(kind, directories[envelope]) as runtime:
            runtime.wait_ready(models)
            cases = {case.name: _ask(runtime, case.request) for case in CASES[envelope]}
            batches = {
                batch.name: _ask_at_once(runtime, batch.requests) for batch in BATCHES if batch.envelope == envelope
            }
            recording = Recording(cases, _ask(runtime, REQUEST_ID), batches, runtime.metrics())
            if not envelope:
                answers = {
                    case.feature: torchserve_grpc.call(runtime.grpc_port, case) for case in torchserve_grpc.CASES
                }
                recording = replace(recording, torchserve_grpc=answers)
            return _with_endpoints(recording, runtime) if kind in OURS and envelope == "kserve" else recording

    return record


def _with_endpoints(recording: Recording, runtime: Runtime) -> Recording:
    return replace(
        recording,
        endpoints={endpoint.template: _ask(runtime, endpoint.request) for endpoint in ENDPOINTS},
        methods={method.name: call(runtime.grpc_port, method) for method in METHODS},
    )


def _ask(runtime: Runtime, request: Request) -> Answer:
    try:
        return runtime.send(request)
    except (OSError, http.client.HTTPException) as error:
        # Shows where it is compared, and costs the other cases nothing.
        return Answer(0, None, repr(error).encode())


def _ask_at_once(runtime: Runtime, requests: Sequence[Request]) -> list[Answer]:
    with ThreadPoolExecutor(len(requests)) as clients:
        return list(clients.map(lambda request: _ask(runtime, request), requests))
