"""The key of the recordings: it differs as soon as TorchServe would be asked something else, or of something else."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.conformance import archives, recorder, recording, resnet50
from tests.conformance.batches import BATCHES
from tests.conformance.cases import CASES
from tests.conformance.recording import RECORDED
from tests.conformance.torchserve_grpc import CASES as GRPC_CASES
from tests.conformance.values import VALUES
from tests.support.runtimes import ROOT

FILE = RECORDED / "key.json"
# Tests that TorchServe itself passes, and what they ask it of.
BEHAVIOURS = ("tests/conformance/test_sequences.py", "tests/conformance/test_streaming.py")
_THEIR_HANDLERS = ("stateful.py", "streaming.py", "continuous.py")
_PACKAGES = ("captum", "onnxruntime", "torch", "torchserve", "torchvision")


def current() -> dict[str, str]:
    """By what it is of, so that a difference says where to look."""
    return {
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        "archives": _digest(_of_archives()),
        "requests": _digest(_of_requests()),
        "recorder": _digest(line for module in (recorder, recording) for line in meaning(Path(module.__file__))),
        "resnet50": _digest(_of_resnet50()),
        "values": _digest(value.line.encode() for value in VALUES),
        "behaviours": _digest(
            [*(line for path in BEHAVIOURS for line in meaning(ROOT / path)), *map(_handler, _THEIR_HANDLERS)]
        ),
    }


def kept() -> dict[str, str]:
    found: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return found


def _of_archives() -> Iterable[bytes]:
    yield _handler("weights.py")
    for name, of_directory in archives.DIRECTORIES.items():
        yield archives.config(name).encode()
        for archive in of_directory:
            yield repr(archive).encode()
            yield from map(_handler, archive.files)
    yield repr(archives.PACKAGE).encode()


def _of_requests() -> Iterable[bytes]:
    for directory, cases in CASES.items():
        for case in cases:
            yield f"{directory} {case.name} {case.request}".encode()
    for batch in BATCHES:
        yield f"{batch.envelope} {batch.name} {batch.requests}".encode()
    for call in GRPC_CASES:
        yield f"{call.method} {call.pieces} {call.model} {call.version} {call.metadata}".encode()


def _of_resnet50() -> Iterable[bytes]:
    for path in sorted(resnet50.SAMPLE.glob("*.p[yr]*")):
        yield path.read_bytes()
    yield from (f"{resnet50.LAYERS} {resnet50.uploaded(model)}".encode() for model in resnet50.MODELS)


def _handler(name: str) -> bytes:
    return (archives.HANDLERS / name).read_bytes()


def meaning(source: Path) -> Iterable[bytes]:
    """A module's code without its form, its comments, and what it imports from where under which name."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for statement in imports for alias in statement.names}
    for name in ast.walk(tree):
        if isinstance(name, ast.Name) and name.id in imported:
            name.id = "imported"
    return [_dump(statement).encode() for statement in tree.body if statement not in imports]


def _dump(statement: ast.stmt) -> str:
    """Return what Python 3.11 dumps: later ones leave out what is empty, and know parameters of types."""
    dumped = ast.dump(statement, show_empty=True) if sys.version_info >= (3, 13) else ast.dump(statement)
    return dumped.replace(", type_params=[]", "")


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest()[:16]
