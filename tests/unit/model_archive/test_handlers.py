"""Handlers that may well be loaded are not judged."""

from __future__ import annotations

import ast

import pytest

from model_archive.handlers import entry_problem, leaves_weights
from model_archive.manifest import Manifest

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
    ],
)
def test_what_may_be_loaded_is_no_problem(handler: str, text: str) -> None:
    assert entry_problem(handler, ast.parse(text)) is None


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("class A(BaseHandler): ...", True),
        ("class A(vision.ImageClassifier):\n    def preprocess(self, data): ...", True),
        ("class A(BaseHandler):\n    def initialize(self, context): ...", False),
        ("class A(BaseHandler):\n    def inference(self, data): ...", False),
        ("class A(BaseHandler):\n    def _load_torchscript_model(self, path): ...", False),
        ("class A(Mine): ...", False),
        ("class A(BaseHandler): ...\ndef handle(data, context): ...", False),
        (CLASS, False),
    ],
)
def test_only_a_class_without_a_way_of_its_own_leaves_its_weights_to_base_handler(text: str, leaves: bool) -> None:
    assert leaves_weights(Manifest("m", "1.0", "h.py"), ast.parse(text)) is leaves
