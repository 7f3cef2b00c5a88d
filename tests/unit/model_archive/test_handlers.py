"""Handlers that may well be loaded are not judged."""

from __future__ import annotations

import ast
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from model_archive.handlers import (
    content_problem,
    entry_problem,
    leaves_weights,
    model_file_problem,
    stock_handler_of,
    weights_problem,
)
from model_archive.manifest import Manifest
from tests.support.model_folder import packed_zip


def tarred(name: str) -> bytes:
    """A tar with an empty file."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return written.getvalue()


CLASS = "class A:\n    def initialize(self, context): ...\n    def handle(self, data, context): ...\n"


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ("h.py", CLASS),
        ("h", "async def handle(data, context): ..."),
        ("h.py:misspelt", CLASS),  # TorchServe takes the class then
        ("h.py:run", "from others import run"),
        ("h.py:run", "run = make()"),
        ("h.py:A", f"{CLASS}A = A().handle"),
        ("h.py:run", "globals()['run'] = print"),
        ("h.py:run", "from others import *"),
        ("h.py:run", "try:\n    from a import run\nexcept ImportError:\n    from b import run"),
        ("h.py", "if True:\n    class A(X): ...\nelse:\n    class B(X): ..."),
        ("h.py", f"{CLASS}class B: ...\ndel B"),
        ("h.py", "class A(Base): ..."),
        ("h.py", "@made\nclass A: ..."),
        ("h.py", ""),
        ("h.py:run", "Row = namedtuple('Row', 'a')"),
        ("h.py", "from others import handle"),
        ("h.py", "from others import *"),
        ("h.py", "globals()['handle'] = print"),
        ("h.py", "A = make()"),
        ("h.py", "@made\ndef predict(data): ..."),
        ("h.py", "def __getattr__(name): ..."),
        ("h.py", "def make():\n    global handle\n    from others import handle\nmake()"),
        ("h.py", "import sys\nsys.modules[__name__].handle = print"),
    ],
)
def test_what_may_be_loaded_is_no_problem(handler: str, text: str) -> None:
    assert entry_problem(handler, ast.parse(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "def predict(data): ...",
        "model = None\ndef predict(data):\n    global model\n    model = load()",
        "from others import Handler\nimport others",  # TorchServe takes only a class of the module itself
        '"""A handler."""',
    ],
)
def test_a_module_without_a_class_and_a_function_of_the_name_is_a_problem(text: str) -> None:
    assert entry_problem("h.py", ast.parse(text)) == (
        "its handler 'h.py' has no class, and no function handle; write one class, or a function "
        "`def handle(data, context)`, which is called once with None as data, to load"
    )


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("class A(BaseHandler): ...", True),
        ("class A(ImageClassifier):\n    def preprocess(self, data): ...", True),
        ("class A(BaseHandler):\n    def initialize(self, context): ...", False),
        ("class A(BaseHandler):\n    def inference(self, data): ...", False),
        ("class A(BaseHandler):\n    def _load_torchscript_model(self, path): ...", False),
        ("class A(Mine): ...", False),
        ("class A(BaseHandler): ...\ndef handle(data, context): ...", False),
        (CLASS, False),
    ],
)
def test_only_a_class_without_a_way_of_its_own_leaves_its_weights_to_base_handler(text: str, leaves: bool) -> None:
    theirs, ours = (
        "from ts.torch_handler.base_handler import BaseHandler, ImageClassifier",
        "from mine import BaseHandler",
    )

    assert leaves_weights(Manifest("m", "1.0", "h.py"), ast.parse(f"{theirs}\n{text}")) is leaves
    assert not leaves_weights(Manifest("m", "1.0", "h.py"), ast.parse(f"{ours}\n{text}"))


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        ("class A(ImageClassifier):\n    def postprocess(self, data): ...", "image_classifier"),
        ("class A(Mixin, VisionHandler):\n    def initialize(self, context): ...", "image_classifier"),
        ("class A(TextClassifier): ...", "text_classifier"),
        ("class A(ImageClassifier):\n    def preprocess(self, data): ...", ""),
        ("class A(ImageClassifier):\n    image_processing = to_tensor", ""),
        ("class A(ImageClassifier):\n    def handle(self, data, context): ...", ""),
        ("class A(ImageClassifier): ...\nclass B(A): ...", ""),
        ("class A(BaseHandler): ...", "base_handler"),
    ],
)
def test_a_class_leaves_its_requests_to_a_handler_of_torchserve_that_reads_them(text: str, reader: str) -> None:
    names = "BaseHandler, ImageClassifier, TextClassifier, VisionHandler"
    theirs, ours = f"from ts.torch_handler.base_handler import {names}", f"from mine import {names}"

    assert stock_handler_of("h.py", ast.parse(f"{theirs}\n{text}")) == reader
    assert stock_handler_of("h.py", ast.parse(f"{ours}\n{text}")) == ""


@pytest.mark.parametrize(
    ("weights", "settings"), [("net.pt", None), ("net.so", "c.yaml"), ("net.pth", None), ("net.onnx", None), ("", None)]
)
def test_without_a_model_file_weights_that_base_handler_may_load_are_no_problem(
    tmp_path: Path, weights: str, settings: str | None
) -> None:
    manifest = Manifest("m", "1.0", "base_handler", None, settings, None, weights or None)
    (tmp_path / (weights or "net")).write_bytes(packed_zip({"net/constants.pkl": b""}))

    problem = weights_problem(manifest) or content_problem(manifest, tmp_path / weights)

    assert bool(problem) == (weights in ("net.pth", "net.onnx", ""))


SAVED = packed_zip({"net/data.pkl": b""})


@pytest.mark.parametrize(
    ("weights", "content", "has_problem"),
    [
        ("net.pt", SAVED, False),
        ("net.bin", SAVED, False),
        ("net.pth", b"\x80\x02}.", False),
        ("net.pt", tarred("sys_info"), False),
        ("net.onnx", SAVED, True),
        ("net.pt2", SAVED, True),
        ("net.pt", b"hello", True),
        ("net.pt", b"", True),
        ("net.pth", packed_zip({"net/models/model.json": b""}), True),
    ],
)
def test_beside_a_model_file_weights_are_what_torch_saved(
    tmp_path: Path, weights: str, content: bytes, has_problem: bool
) -> None:
    manifest = Manifest("m", "1.0", "base_handler", model_file="model.py", serialized_file=weights)
    (tmp_path / weights).write_bytes(content)

    assert (weights_problem(manifest) or content_problem(manifest, tmp_path / weights)) == (
        f"'{weights}' is not a state_dict, which TorchServe's base_handler loads beside a model file; save "
        "model.state_dict() with torch.save, or write a handler that loads it"
        if has_problem
        else None
    )


def test_a_model_file_may_do_without_weights() -> None:
    assert weights_problem(Manifest("m", "1.0", "base_handler", model_file="model.py")) is None


def test_weights_are_not_read_to_tell_whether_they_are_torchscript(tmp_path: Path) -> None:
    weights, size = tmp_path / "net.pt", 64 << 20
    weights.write_bytes(packed_zip({"net/data/0": bytes(size)}))
    tracemalloc.start()

    problem = content_problem(Manifest("m", "1.0", "base_handler", serialized_file="net.pt"), weights)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem
    assert peak < size / 10


@pytest.mark.parametrize(
    ("text", "has_problem"),
    [
        ("class Net(Module): ...", False),
        ("class Block(Module): ...\nclass Net(Module): ...", True),
        ("from torchvision.models import ResNet", True),
        ("from mine import *", False),
        ("Net = make('Net')", False),
        ("if cuda:\n    class Net(A): ...\nelse:\n    class Other(B): ...", False),
    ],
)
def test_a_model_file_has_one_class(text: str, has_problem: bool) -> None:
    assert bool(model_file_problem("model.py", ast.parse(text))) == has_problem
