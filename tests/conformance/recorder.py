"""Asks a server everything once."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.conformance import resnet50, torchserve_grpc
from tests.conformance.archives import DIRECTORIES, Archive, has_torch
from tests.conformance.batches import BATCHES
from tests.conformance.case import predictions
from tests.conformance.cases import CASES
from tests.conformance.endpoints import ENDPOINTS, METHODS, call
from tests.conformance.recording import Recording
from tests.support.ports import free_port
from tests.support.runtimes import OURS, TORCHSERVE, Answer, Request, Runtime

# Never the same twice, so no case.
REQUEST_ID = predictions("probe", x_do="request_id")
HOSTNAME = "a-host"
_TYPE = re.compile(r"^# TYPE (?:Probe\w+|PredictionTime) \w+$", re.MULTILINE)
_MEASURED = re.compile(r"^((?:Probe\w+|PredictionTime)\{.*\}) (\S+)$", re.MULTILINE)


def record(kind: str, directory: str, folder: Path) -> Recording:
    """What one kind of server, started over the folder of a model directory, says."""
    later = [archive for archive in DIRECTORIES[directory] if archive.later]
    managed = {"TS_MANAGEMENT_ADDRESS": f"http://127.0.0.1:{free_port()}"} if later and kind in OURS else {}
    with Runtime(kind, folder, has_torch=has_torch(directory), **managed) as runtime:
        runtime.wait_ready({archive.model for archive in DIRECTORIES[directory] if not archive.later})
        for archive in later:
            _register(runtime, archive)
        recording = Recording(
            cases={case.name: _ask(runtime, case.request) for case in CASES[directory]},
            request_id=_ask(runtime, REQUEST_ID),
            batches={one.name: _ask_at_once(runtime, one.requests) for one in BATCHES if one.envelope == directory},
            metrics=runtime.metrics(),
            log="",
        )
        if not directory:
            answers = {one.feature: torchserve_grpc.call(runtime.grpc_port, one) for one in torchserve_grpc.CASES}
            recording = replace(recording, torchserve_grpc=answers)
        if kind in OURS and directory == "kserve":
            recording = _with_endpoints(recording, runtime)
        if kind in OURS and directory == "settings":
            ready = {model: runtime.get(f"/v1/models/{model}").status for model in ("probe", "gone")}
            recording = replace(recording, ready=ready)
        return replace(recording, log=runtime.log)


def record_torchserve(directory: str, folder: Path) -> Recording:
    """TorchServe's, without what differs from one run or machine to the next."""
    recording = record(TORCHSERVE, directory, folder)
    return replace(
        recording,
        request_id=_without_id(recording.request_id),
        batches={
            one.name: _of_batch(one.why, recording.batches[one.name]) for one in BATCHES if one.envelope == directory
        },
        metrics="" if directory else _measured(recording.metrics),
        log=_about_missing_archives(recording.log),
    )


def record_pictures(volume: Path) -> Mapping[str, Answer]:
    """TorchServe's answers to a picture, by the model of the sample `resnet50`."""
    with Runtime(TORCHSERVE, volume) as runtime:
        runtime.wait_ready(resnet50.MODELS)
        return {model: runtime.send(resnet50.uploaded(model)) for model in resnet50.MODELS}


def _register(runtime: Runtime, archive: Archive) -> None:
    if runtime.kind == TORCHSERVE:
        path, port = f"/models?url={archive.file}&initial_workers=1&synchronous=true", runtime.management_port
    else:
        path, port = f"/v2/repository/models/{archive.model}/load", None
    answer = runtime.send(Request("POST", path), port)
    assert answer.status == 200, answer.body


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


def _without_id(answer: Answer) -> Answer:
    """Where the body is the request's id, both are replaced by the same words."""
    if answer.headers.get("x-request-id") != answer.body.decode():
        return answer
    return replace(answer, body=b"the id", headers={**answer.headers, "x-request-id": "the id"})


def _of_batch(fails: str, answers: Sequence[Answer]) -> list[Answer]:
    """Of a batch that fails, how the others than its first request did: how many came in one batch is chance."""
    if not fails:
        return list(answers)
    failed = {answer.body: replace(answer, headers={}) for answer in answers[1:] if answer.status != 200}
    return [failed[body] for body in sorted(failed)]


def _measured(metrics: str) -> str:
    """What the handler has measured, and of what took time no more than that it is there."""
    lines = _MEASURED.findall(metrics.replace(socket.gethostname(), HOSTNAME))
    samples = (f"{name} {0.0 if name.startswith('Pred') else value}" for name, value in sorted(lines))
    return "".join(f"{line}\n" for line in (*sorted(_TYPE.findall(metrics)), *samples))


def _about_missing_archives(log: str) -> str:
    """Without times and threads."""
    return "".join(f"{line.partition(' - ')[2]}\n" for line in log.splitlines() if "gone.mar" in line and " - " in line)
