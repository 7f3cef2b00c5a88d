"""What one server said, and how TorchServe's is kept: a file for each answer in `recorded/`."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.conformance.batches import BATCHES
from tests.conformance.cases import CASES
from tests.conformance.torchserve_grpc import CASES as GRPC_CASES
from tests.conformance.torchserve_grpc import GrpcCase
from tests.support.runtimes import Answer

RECORDED = Path(__file__).with_name("recorded")
REQUEST_ID, METRICS, LOG = "request-id.json", "metrics.txt", "log.txt"
# They differ in each answer, or are no more than TorchServe's habit.
_NOT_KEPT = {"cache-control", "connection", "content-length", "content-type", "expires", "pragma", "transfer-encoding"}
_LINES = 60
_FRACTION = re.compile(rb"-?\d+\.\d+(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Recording:
    """What a server of one model directory said: to each case, to requests that came at once, and of itself."""

    cases: Mapping[str, Answer]
    request_id: Answer
    batches: Mapping[str, Sequence[Answer]]
    metrics: str
    log: str
    ready: Mapping[str, int] = field(default_factory=dict)
    endpoints: Mapping[str, Answer] = field(default_factory=dict)
    methods: Mapping[str, Any] = field(default_factory=dict)
    torchserve_grpc: Mapping[str, Sequence[str]] = field(default_factory=dict)


def files_of(directory: str, recording: Recording) -> dict[str, str]:
    """What is kept of a recording, by the name of its file below `recorded/`."""
    files = {f"{name}.json": answer_file(answer) for name, answer in recording.cases.items()}
    files |= {f"batch-{name}.json": _text([*map(_as_json, one)]) for name, one in recording.batches.items()}
    files |= {_grpc_file(one): _text(recording.torchserve_grpc[one.feature]) for one in _grpc_cases(directory)}
    files |= {REQUEST_ID: _text(_as_json(recording.request_id, "x-request-id"))} if not directory else {}
    files |= {METRICS: recording.metrics} if recording.metrics else {}
    files |= {LOG: recording.log} if recording.log else {}
    return {f"{_folder(directory)}/{name}": text for name, text in files.items()}


def recorded(directory: str) -> Recording:
    """TorchServe's recording."""
    folder = RECORDED / _folder(directory)
    batches = [batch.name for batch in BATCHES if batch.envelope == directory]
    return Recording(
        cases={case.name: read_answer(folder / f"{case.name}.json") for case in CASES[directory]},
        request_id=read_answer(RECORDED / _folder("") / REQUEST_ID),
        batches={name: [*map(_answer, _read(folder / f"batch-{name}.json"))] for name in batches},
        metrics=_read_text(folder / METRICS),
        log=_read_text(folder / LOG),
        torchserve_grpc={one.feature: tuple(_read(folder / _grpc_file(one))) for one in _grpc_cases(directory)},
    )


def answer_file(answer: Answer) -> str:
    return _text(_as_json(shortened(answer)))


def read_answer(file: Path) -> Answer:
    return _answer(_read(file))


def as_recorded(reference: Answer, answer: Answer) -> Answer:
    """The answer as it is kept; fractions that processors round differently are written as in the reference."""
    kept = shortened(answer)
    return replace(kept, body=rounded_as(reference.body, kept.body))


def shortened(answer: Answer) -> Answer:
    """Of thousands of lines the first ones, how many there are, and the sum of all fractions without their signs."""
    lines = answer.body.splitlines(keepends=True)
    if len(lines) <= _LINES:
        return answer
    total = math.fsum(abs(float(fraction)) for fraction in _FRACTION.findall(answer.body))
    return replace(answer, body=b"".join([*lines[:_LINES], b"%d lines, %r\n" % (len(lines), total)]))


def rounded_as(reference: bytes, text: bytes) -> bytes:
    theirs, ours = _FRACTION.findall(reference), _FRACTION.findall(text)
    if len(theirs) != len(ours):
        return text
    chosen = iter([their if _is_close(their, our) else our for their, our in zip(theirs, ours, strict=True)])
    return _FRACTION.sub(lambda _: next(chosen), text)


def _is_close(*numbers: bytes) -> bool:
    """Only what Python itself has written is judged by its value."""
    first, second = map(float, numbers)
    is_pythons = all(repr(float(one)).encode() == one for one in numbers)
    return is_pythons and math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-6)


def _folder(directory: str) -> str:
    return directory or "plain"


def _grpc_cases(directory: str) -> Iterable[GrpcCase]:
    return () if directory else GRPC_CASES


def _grpc_file(case: GrpcCase) -> str:
    return f"grpc-{GRPC_CASES.index(case)}-{case.method}.json"


def _as_json(answer: Answer, *more_headers: str) -> dict[str, Any]:
    not_kept = (_NOT_KEPT | {"x-request-id"}) - {*more_headers}
    headers = {name: value for name, value in sorted(answer.headers.items()) if name not in not_kept}
    kept = {"status": answer.status, "content_type": answer.content_type, **({"headers": headers} if headers else {})}
    try:
        lines = answer.body.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return {**kept, "base64": base64.b64encode(answer.body).decode()}
    return {**kept, "body": lines if len(lines) > 1 else "".join(lines)}


def _answer(kept: Mapping[str, Any]) -> Answer:
    body = base64.b64decode(kept["base64"]) if "base64" in kept else "".join(kept["body"]).encode()
    return Answer(kept["status"], kept["content_type"], body, kept.get("headers", {}))


def _text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _read_text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""
