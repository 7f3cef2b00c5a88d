"""Every difference between the answers of ours and TorchServe's, each with its reason.

`python -m tests.conformance differences` asks both runtimes everything that TorchServe was asked, and prints them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conformance import recorder
from tests.conformance.archives import served_by
from tests.conformance.batches import BATCHES
from tests.conformance.case import JSON, Case
from tests.conformance.cases import CASES
from tests.conformance.recording import Recording, as_recorded, recorded
from tests.conformance.torchserve_grpc import CASES as GRPC_CASES
from tests.conformance.values import differing
from tests.support.runtimes import OURS, Answer

_SHOWN = 160


@dataclass(frozen=True)
class Difference:
    """`why` is that of its row in docs/conformance.md or docs/torchserve-settings.md; "": there is none."""

    kind: str
    feature: str
    theirs: str
    ours: str
    why: str

    def __str__(self) -> str:
        said = (f"TorchServe: {self.theirs[:_SHOWN]}", f"ours: {self.ours[:_SHOWN]}", f"why: {self.why or 'unknown'}")
        return "\n    ".join([f"{self.kind}: {self.feature}", *said])


def compared(case: Case, reference: Answer, answer: Answer) -> tuple[Answer, Answer]:
    """TorchServe's answer and ours without what differs everywhere, as docs/conformance.md says."""
    if case.speaks_a_protocol:
        return (
            replace(reference, content_type=JSON, body=_unindented(reference.body)),
            replace(answer, body=_unindented(answer.body)),
        )
    return replace(reference, content_type=reference.content_type or answer.content_type), answer


def find(directories: Mapping[str, Path]) -> Iterator[Difference]:
    """Those of both runtimes over every model directory."""
    for name, folder in directories.items():
        for kind in served_by(name):
            yield from _between(kind, name, recorded(name), recorder.record(kind, name, folder))
    for kind in OURS:
        for line, theirs, ours, why in differing(kind):
            yield Difference(kind, line, theirs, ours, why)


def _between(kind: str, directory: str, theirs: Recording, ours: Recording) -> Iterator[Difference]:
    for case in CASES[directory]:
        reference, answer = theirs.cases[case.name], ours.cases[case.name]
        left, right = compared(case, reference, as_recorded(reference, answer))
        if left != right:
            yield Difference(kind, case.feature, _shown(left), _shown(right), case.why)
    for batch in (batch for batch in BATCHES if batch.envelope == directory):
        of_theirs, of_ours = ([_text(one) for one in of.batches[batch.name]] for of in (theirs, ours))
        if of_theirs != of_ours:
            yield Difference(kind, batch.feature, " | ".join(of_theirs), " | ".join(of_ours), batch.why)
    for call in GRPC_CASES if not directory else ():
        responses, own = theirs.torchserve_grpc[call.feature], ours.torchserve_grpc[call.feature]
        if responses != own:
            yield Difference(kind, call.feature, " | ".join(responses), " | ".join(own), call.why)


def _shown(answer: Answer) -> str:
    return f"{answer.content_type} {_text(answer)}"


def _text(answer: Answer) -> str:
    return f"{answer.status} {_unindented(answer.body).decode('utf-8', 'replace')}"


def _unindented(body: bytes) -> bytes:
    """The document in one form, where it is one."""
    try:
        return json.dumps(json.loads(body), sort_keys=True).encode()
    except ValueError:
        return body
