"""What is ready when an archive's handler is loaded."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import orjson
import pytest
from ts.utils.util import load_label_mapping

from tests.unit.torchserve_compat.running import context, no_piece, whole
from torchserve_compat.frames import HandlerBatch, HandlerFailure
from torchserve_compat.server.errors import cause_of
from torchserve_compat.values import NOT_AWAITED
from torchserve_compat.worker.loading import HandlerLoader, LoadFailure, describe

COLLECTING = """
import gc
import logging

imported = gc.isenabled()

def handle(data, context):
    if data is None:
        handle.initialized = gc.isenabled()
    return [[imported, handle.initialized]]
"""
POOLS = """
import torch
from torch.profiler import ProfilerActivity, profile

with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as profiled:
    torch.max_pool2d(torch.randn(2, 16, 28, 28), 2)
operators = {event.key for event in profiled.key_averages()}

def handle(data, context):
    return [{"has_torchs_kernel": "aten::max_pool2d_with_indices" in operators}]
"""


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """What loading took out of the reach of garbage collection."""
    yield
    gc.unfreeze()


@pytest.mark.process
def test_a_handler_computes_with_torchs_own_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pools.py").write_text(POOLS)
    loader = HandlerLoader(lambda _: None)

    loader.load("m", str(tmp_path), "pools.py:handle", None, 1, "none")
    result = loader.calls.run(HandlerBatch("raw", [whole(b"", "application/json")]), context(), no_piece)

    assert orjson.loads(result.responses[0].body) == {"has_torchs_kernel": True}


def test_garbage_is_not_collected_while_a_handler_is_imported_but_while_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "collecting.py").write_text(COLLECTING)
    loader = HandlerLoader(lambda _: None)

    loader.load("m", str(tmp_path), "collecting.py:handle", None, 1, "none")
    result = loader.calls.run(HandlerBatch("raw", [whole(b"", "application/json")]), context(), no_piece)

    assert orjson.loads(result.responses[0].body) == [False, True]
    assert gc.isenabled()


ASYNCHRONOUS = """
class Handler:
    def initialize(self, context):
        pass

    async def handle(self, data, context):
        return data

async def handle_module(data, context):
    return data

def handle_later(data, context):
    return data and handle_module(data, context)
"""


@pytest.mark.parametrize("entry", ["", ":handle_module"])
def test_a_handler_that_would_have_to_be_awaited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = f"asynchronous{len(entry)}"
    (tmp_path / f"{module}.py").write_text(ASYNCHRONOUS)
    failures: list[LoadFailure] = []

    with pytest.raises(TypeError, match="The handler is `async def`, but handlers are not awaited: write `def`"):
        HandlerLoader(failures.append).load("m", str(tmp_path), f"{module}.py{entry}", None, 1, "none")

    assert [failure.message for failure in failures] == [NOT_AWAITED]


def test_a_handler_that_returns_what_would_have_to_be_awaited_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "later.py").write_text(ASYNCHRONOUS)
    loader = HandlerLoader(lambda _: None)
    loader.load("m", str(tmp_path), "later.py:handle_later", None, 1, "none")

    result = loader.calls.run(HandlerBatch("raw", [whole(b"x")]), context(), no_piece)

    assert result.failure == HandlerFailure(NOT_AWAITED, 500)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [("Matplotlib is building the font cache; this may take a moment.", False), ("findfont: no Arial", True)],
)
def test_matplotlibs_first_import_is_not_told(caplog: pytest.LogCaptureFixture, text: str, is_told: bool) -> None:
    logging.getLogger("matplotlib.font_manager").warning(text)

    assert (text in caplog.messages) is is_told


@pytest.mark.parametrize("is_classifier", [False, True])
def test_names_of_classes_are_missed_only_where_a_handler_reads_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_classifier: bool
) -> None:
    for name in ("image_classifier", "object_detector", "text_classifier", "dali_image_classifier"):
        monkeypatch.delitem(sys.modules, f"ts.torch_handler.{name}", raising=False)
    if is_classifier:
        monkeypatch.setitem(sys.modules, "ts.torch_handler.image_classifier", ModuleType("image_classifier"))

    load_label_mapping(str(tmp_path / "index_to_name.json"))

    assert bool(caplog.messages) is is_classifier


def test_a_handler_that_cannot_be_imported_fails_with_that_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TorchServe's loader then looks for one of its own handlers by that name, and fails with that as well."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "importing.py").write_text("import os\nimport not_there_at_all")
    failures: list[LoadFailure] = []

    with pytest.raises(ModuleNotFoundError) as raised:
        HandlerLoader(failures.append).load("m", str(tmp_path), "importing.py", None, 1, "none")

    assert (raised.value.name, raised.value.__context__) == ("not_there_at_all", None)
    assert failures == [
        LoadFailure(
            "m", "ModuleNotFoundError", "No module named 'not_there_at_all'", "importing.py:2 in <module>",
            "not_there_at_all",
        )
    ]  # fmt: skip


@pytest.mark.process
def test_a_handler_of_torchserve_that_lacks_a_package_fails_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ts.torch_handler.image_classifier", raising=False)
    monkeypatch.delitem(sys.modules, "ts.torch_handler.vision_handler", raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    failures: list[LoadFailure] = []

    with pytest.raises(ModuleNotFoundError) as raised:
        HandlerLoader(failures.append).load("m", str(tmp_path), "image_classifier", None, 1, "none")

    assert (raised.value.name, raised.value.__suppress_context__) == ("torchvision", True)
    assert [failure.missing_module for failure in failures] == ["torchvision"]


def test_a_handler_that_is_not_there_is_named(tmp_path: Path) -> None:
    failures: list[LoadFailure] = []

    with pytest.raises(ModuleNotFoundError):
        HandlerLoader(failures.append).load("m", str(tmp_path), "nowhere.py", None, 1, "none")

    assert [cause_of(failure.document(), installs=False) for failure in failures] == [
        "ModuleNotFoundError: No module named 'nowhere'. The handler is neither a file nowhere.py of the model nor one "
        "of TorchServe's own; add the file, or name another handler when you pack the model."
    ]


def test_a_file_of_the_archive_is_named_below_the_folder_that_handlers_know(tmp_path: Path) -> None:
    missing = FileNotFoundError(2, "No such file or directory", f"{tmp_path}/data/labels.json")

    failure = describe("m", str(tmp_path), missing)

    assert failure.message == "[Errno 2] No such file or directory: '<model_dir>/data/labels.json'"


def test_an_exception_without_a_message_is_told_by_its_type(tmp_path: Path) -> None:
    told = cause_of(describe("m", str(tmp_path), RuntimeError()).document(), installs=False)

    assert told == "RuntimeError. Correct the handler or the files of the model, and serve it again."


def test_what_an_error_quotes_can_be_sent(tmp_path: Path) -> None:
    failure = describe("m", str(tmp_path), SystemExit("no label \ud800"))

    assert failure == LoadFailure("m", "SystemExit", r"no label \ud800", "", None)
