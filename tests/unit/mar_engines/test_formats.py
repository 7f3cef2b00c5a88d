"""What a file is, and what its owner is told about one that cannot be served."""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict
from pathlib import Path
from zipfile import ZipFile

import pytest
from onnx import TensorProto, helper

from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.formats import detect
from model_archive.formats import Format


class Network:
    """Stands for a pickled model."""


def archive(path: Path, *names: str, pickled: object = None) -> Path:
    """A zip file with entries of these names, where data.pkl holds `pickled`."""
    with ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, pickle.dumps(pickled, protocol=2) if name.endswith("data.pkl") else b"")
    return path


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("net/constants.pkl", "net/data.pkl", "net/code/__torch__/net.py"), Format.TORCHSCRIPT),
        (("net/archive_format", "net/models/model.json"), Format.EXPORTED),
        (("net/archive_format", "net/data/aotinductor/model/net.wrapper.so"), Format.AOTINDUCTOR),
    ],
)
@pytest.mark.parametrize("suffix", ["pt", "pth", "ts", "pt2"])
def test_a_file_is_told_by_what_it_holds_under_any_of_the_usual_names(
    tmp_path: Path, names: tuple[str, ...], expected: Format, suffix: str
) -> None:
    assert detect(archive(tmp_path / f"model.{suffix}", *names)) is expected


def an_onnx_model() -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, producer_name="tests").SerializeToString()


def test_onnx_is_a_message_with_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(an_onnx_model())

    assert detect(path) is Format.ONNX


@pytest.mark.parametrize(
    "content", [b"hello\n", b"{}", b"\0" * 100, b"\x80\x02}q\x00.", b"PK\x03\x04", b"\x0a\xff\xff\xff\xff\xff", b"\x0f"]
)
def test_other_content_is_no_onnx_whatever_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)

    assert (
        refused(path) == "is not an ONNX model; export it again, such as by torch.onnx.export, or copy the right file"
    )


def test_an_onnx_file_that_lacks_its_end_is_damaged(tmp_path: Path) -> None:
    path, whole = tmp_path / "model.onnx", an_onnx_model()
    graph = whole.index(b"\x3a")  # its tag

    for size in (1, graph, graph + 1, len(whole) // 2):
        path.write_bytes(whole[:size])
        assert refused(path) == "is damaged; copy or save it again"


def refused(path: Path) -> str:
    with pytest.raises(CannotLoad) as caught:
        detect(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_state_dict_is_refused_with_the_way_to_package_it(tmp_path: Path) -> None:
    path = archive(tmp_path / "mnist.pt", "mnist/data.pkl", "mnist/version", pickled=OrderedDict(weight=1))

    assert refused(path) == (
        "holds weights only (a state dict), and needs its class: package it with its class as a .mar "
        "(isvc pack --model-name NAME --model-file model.py --serialized-file mnist.pt)"
    )


def test_a_pickled_model_is_refused_by_its_class_and_without_unpickling_it(tmp_path: Path) -> None:
    path = archive(tmp_path / "net.pt", "net/data.pkl", "net/version", pickled=Network())

    message = refused(path)

    assert re.match(
        r"holds pickled objects \([\w., ]*Network\), and to load them would run code from the file; ", message
    )
    assert message.endswith(
        "convert it where its class is known: torch.jit.script(model).save('model.pt'), or save model.state_dict() as "
        "weights.pt, and package it with its class as a .mar (isvc pack --model-name NAME --model-file model.py "
        "--serialized-file weights.pt)"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.pt", b"", "is empty; copy or save it again"),
        ("model.onnx", b"", "is empty; copy or save it again"),
        ("model.pt", b"PK\x03\x04 and no more", "is damaged; copy or save it again"),
        (
            "model.pt",
            b"\x80\x02}q\x00.",
            "saved by torch.save in its format of before torch 1.6; "
            "convert it where its class is known: torch.jit.script(model).save('model.pt')",
        ),
        (
            "model.pt",
            b"<html>Not found</html>",
            "is not a model that torch saved; expected TorchScript, a torch.export program or an AOTInductor package",
        ),
        ("model.h5", b"\x89HDF", "the name ends in none of .pt, .pth, .ts, .pt2, .onnx"),
    ],
    ids=["empty", "empty-onnx", "truncated", "old-torch-save", "a-web-page", "other-suffix"],
)
def test_a_file_that_is_no_model_is_refused_with_what_it_is(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert refused(path) == message


def test_an_archive_with_a_wrong_suffix_is_named_for_what_it_is(tmp_path: Path) -> None:
    path = archive(tmp_path / "bert.pt", "MAR-INF/MANIFEST.json", "handler.py")

    assert refused(path) == "is a TorchServe archive; name it .mar and put it into model-store/"


def test_any_other_zip_file_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "model.pt", "readme.txt")

    assert refused(path) == "is a zip file, but neither TorchScript nor a torch.export or AOTInductor package"


def test_a_damaged_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with ZipFile(path, "w") as file:
        file.writestr("model/data.pkl", b"\x80\x02cno newline")

    assert refused(path) == "is damaged; copy or save it again"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "model.pt") == "cannot be read: No such file or directory"
