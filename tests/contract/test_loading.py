"""What `isvc pack` and `isvc inspect` refuse, TorchServe cannot load; what their fix makes, it loads.

Each row is loaded by TorchServe's own loader, as both runtimes do.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

with warnings.catch_warnings(action="ignore"):  # what torch and TorchServe's wheel do when they are imported
    import torch
    import ts.handler_utils.utils  # noqa: F401

from model_archive.errors import CannotPack
from model_archive.manifest import MANIFEST
from model_archive.packing import ArchiveTarget, in_folder, pack
from model_archive.packing import Sources as Given
from storage_initializer.inspection import Inspection
from tests.support.memory_source import ONCE, MemorySource
from tests.support.model_folder import manifest, packed_zip, read_tree, write_files
from torchserve_compat.server.errors import cause_of
from torchserve_compat.worker.loading import HandlerLoader, LoadFailure

NETWORK = """
import torch

class Network(torch.nn.Linear):
    def __init__(self):
        super().__init__(2, 1)
"""
OWN = """
class Own:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        return data
"""
EXTENDING = """
from ts.torch_handler.base_handler import BaseHandler

class Extending(BaseHandler):
    def postprocess(self, data):
        return data.tolist()
"""
FUNCTION = "def answer(data, context):\n    return data\n"
OF_BASE_HANDLER = "TorchServe's base_handler loads TorchScript from a .pt, and a state_dict with a model file"
ONE_CLASS = (
    "Write one class in the handler's file and import others from files beside it, or write a function `def "
    "handle(data, context)`, which is called once with None as data, to load."
)
REPACK = "Correct the handler or the files of the model, and serve it again."


def nothing(path: Path) -> None:
    path.write_bytes(packed_zip({"net/data.pkl": b""}))


def text(path: Path) -> None:
    path.write_text("weights")


def state(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 1).state_dict(), path)


def pickled(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 1).state_dict(), path, _use_new_zipfile_serialization=False)


def whole(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 1), path)


def script(path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 1), torch.ones(1, 2)), path)


@dataclass(frozen=True)
class Tried:
    """An archive: the manifest's handler, files of text, weights, and how they are saved."""

    handler: str
    texts: Mapping[str, str]
    weights: str = ""
    save: Callable[[Path], None] = nothing

    def write(self, folder: Path) -> None:
        """Write it as the folder of an unpacked archive."""
        folder.mkdir()
        write_files(folder, {name: text.encode() for name, text in self.texts.items()})
        if self.weights:
            self.save(folder / self.weights)
        model_file = "network.py" if "network.py" in self.texts else None
        content = manifest(
            modelName="m", handler=self.handler, modelFile=model_file, serializedFile=self.weights or None
        )
        write_files(folder, {MANIFEST: json.dumps(content).encode()})


@dataclass(frozen=True)
class Row:
    """What is said of an archive before it is served and by the runtimes, and the archive with the fix."""

    wrong: Tried
    before: str
    when_loaded: str
    mended: Tried
    is_inspected: bool = True  # not where the weights would have to be read


ROWS = {
    "an exported program": Row(
        Tried("base_handler", {}, "net.pt2"),
        "TorchServe's base_handler does not load 'net.pt2' without a model file",
        OF_BASE_HANDLER,
        Tried("base_handler", {}, "net.pt", script),
    ),
    "a network of another file type": Row(
        Tried("base_handler", {}, "net.onnx"),
        "TorchServe's base_handler does not load 'net.onnx' without a model file",
        "",  # where there is onnxruntime it is loaded, and each request fails
        Tried("own.py", {"own.py": OWN}, "net.onnx"),
    ),
    "a state_dict without a model file": Row(
        Tried("base_handler", {}, "net.pth", state),
        "TorchServe's base_handler does not load 'net.pth' without a model file",
        OF_BASE_HANDLER,
        Tried("base_handler", {"network.py": NETWORK}, "net.pth", state),
    ),
    "a state_dict that is called as TorchScript is": Row(
        Tried("base_handler", {}, "net.pt", state),
        "'net.pt' is not TorchScript, which TorchServe's base_handler needs",
        OF_BASE_HANDLER,
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", state),
        is_inspected=False,
    ),
    "a pickle, as torch wrote it before its files were zips": Row(
        Tried("base_handler", {}, "net.pt", pickled),
        "'net.pt' is not TorchScript, which TorchServe's base_handler needs",
        "The weights are truncated, or not saved by this version of torch",
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", pickled),
        is_inspected=False,
    ),
    "a network that is saved whole": Row(
        Tried("base_handler", {}, "net.pt", whole),
        "'net.pt' is not TorchScript, which TorchServe's base_handler needs",
        OF_BASE_HANDLER,
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", state),
        is_inspected=False,
    ),
    "a pickle of another name": Row(
        Tried("base_handler", {}, "net.pkl", pickled),
        "TorchServe's base_handler does not load 'net.pkl' without a model file",
        OF_BASE_HANDLER,
        Tried("own.py", {"own.py": OWN}, "net.pkl", pickled),
    ),
    "a file that torch did not write": Row(
        Tried("base_handler", {}, "net.pt", text),
        "'net.pt' is not TorchScript, which TorchServe's base_handler needs",
        "The weights are truncated, or not saved by this version of torch",
        Tried("base_handler", {}, "net.pt", script),
        is_inspected=False,
    ),
    "a network of another file type beside a model file": Row(
        Tried("base_handler", {"network.py": NETWORK}, "net.onnx", text),
        "'net.onnx' is not a state_dict, which TorchServe's base_handler loads beside a model file",
        "torch.load loads only tensors",
        Tried("base_handler", {"network.py": NETWORK}, "net.pth", state),
    ),
    "a file that torch did not write beside a model file": Row(
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", text),
        "'net.pt' is not a state_dict, which TorchServe's base_handler loads beside a model file",
        "torch.load loads only tensors",
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", state),
        is_inspected=False,
    ),
    "a network that is saved whole beside a model file": Row(
        Tried("base_handler", {"network.py": NETWORK}, "net.pt", whole),
        "'net.pt' is a whole network, saved with its class torch.nn.modules.linear.Linear, where TorchServe's "
        "base_handler loads only a state_dict; save model.state_dict() in another file, and name that",
        "torch.load loads only tensors",
        Tried("base_handler", {"network.py": NETWORK}, "weights.pt", state),
        is_inspected=False,
    ),
    "a handler that leaves its weights to BaseHandler": Row(
        Tried("extending.py", {"extending.py": EXTENDING}, "net.pt2"),
        "TorchServe's BaseHandler does not load 'net.pt2' without a model file",
        OF_BASE_HANDLER,
        Tried("extending.py", {"extending.py": EXTENDING}, "net.pt", script),
    ),
    "a handler that leaves weights to BaseHandler which are not there": Row(
        Tried("extending.py", {"extending.py": EXTENDING}),
        "TorchServe's BaseHandler has no weights to load; add it",
        "The model has no weights that TorchServe's BaseHandler could load; add a .pt, or",
        Tried("extending.py", {"extending.py": EXTENDING}, "net.pt", script),
    ),
    "a class after the colon": Row(
        Tried("own.py:Own", {"own.py": OWN}),
        "TorchServe calls what follows the colon of 'own.py:Own' as a function, and Own is a class; write 'own.py'",
        "What follows the colon of the handler is called as a function, with (data, context). For a class, name only "
        "its file: handler.py.",
        Tried("own.py", {"own.py": OWN}),
    ),
    "a model file with two classes": Row(
        Tried("base_handler", {"network.py": f"{NETWORK}\nclass Block: ..."}, "net.pt", state),
        "its model file 'network.py' has the classes Network, Block, where TorchServe takes the only one",
        "Leave only the network's class in the model file",
        Tried(
            "base_handler",
            {"network.py": f"from words import Block\n{NETWORK}", "words.py": "class Block: ..."},
            "net.pt",
            state,
        ),
    ),
    "no such function": Row(
        Tried("own.py:anwser", {"own.py": FUNCTION}),
        "its handler 'own.py:anwser' has no class, and no function anwser",
        ONE_CLASS,
        Tried("own.py:answer", {"own.py": FUNCTION}),
    ),
    "a function of another name": Row(
        Tried("own.py", {"own.py": FUNCTION}),
        "its handler 'own.py' has no class, and no function handle",
        ONE_CLASS,
        Tried("own.py", {"own.py": FUNCTION.replace("answer", "handle")}),
    ),
    "several classes": Row(
        Tried("own.py", {"own.py": f"{OWN}\nclass Other: ..."}),
        "its handler 'own.py' has the classes Own, Other, and no function handle",
        ONE_CLASS,
        Tried("own.py", {"own.py": f"{OWN}\nclass Other: ...\ndef handle(data, context): ..."}),
    ),
    "a class without a method": Row(
        Tried("own.py", {"own.py": OWN.replace("initialize", "load")}),
        "the class Own of its handler 'own.py' has no method initialize; write it",
        REPACK,
        Tried("own.py", {"own.py": OWN}),
    ),
    "a module that is not there": Row(
        Tried("own.py", {"own.py": f"import words\n{OWN}"}),
        "",  # it may be among the requirements, or in the image
        "add a module of your own to the model's files.",
        Tried("own.py", {"own.py": f"import words\n{OWN}", "words.py": ""}),
    ),
}


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """What loading took out of the reach of garbage collection."""
    yield
    gc.unfreeze()


def said_when_packed(folder: Path, out: Path) -> str:
    try:
        pack(in_folder(folder, Given()), ArchiveTarget(out, overwrite=True))
    except CannotPack as error:
        return str(error).removeprefix("m.mar: ")
    return ""


def said_when_inspected(folder: Path) -> str:
    source = MemorySource(read_tree(folder))
    problems = Inspection(source, ONCE, folder).document(source.list_files())["problems"]
    return "; ".join(problems).removeprefix(".: ")


def said_when_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    failures: list[LoadFailure] = []
    handler = json.loads((folder / MANIFEST).read_text())["model"]["handler"]
    with monkeypatch.context() as patched, warnings.catch_warnings(action="ignore"):
        patched.syspath_prepend(folder)
        for name in ("own", "extending", "network", "words"):
            patched.delitem(sys.modules, name, raising=False)
        try:
            HandlerLoader(failures.append).load("m", str(folder), handler, None, 1, "none")
        except Exception:  # noqa: BLE001 - it is reported
            return cause_of(failures[0].document(), installs=False)
    return ""


@pytest.mark.process
@pytest.mark.parametrize("name", ROWS)
def test_what_cannot_be_loaded_is_told_before_it_is_and_its_fix_mends_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS[name]
    wrong, mended, out = tmp_path / "wrong", tmp_path / "mended", tmp_path / "out"
    out.mkdir()
    row.wrong.write(wrong)
    row.mended.write(mended)

    assert said_when_packed(wrong, out).startswith(row.before)
    assert bool(said_when_packed(wrong, out)) == bool(row.before)
    assert said_when_inspected(wrong).startswith(row.before if row.is_inspected else "")
    assert row.when_loaded in said_when_loaded(wrong, monkeypatch)
    assert (said_when_packed(mended, out), said_when_inspected(mended), said_when_loaded(mended, monkeypatch)) == (
        "", "", "",
    )  # fmt: skip
