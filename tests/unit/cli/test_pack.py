"""`isvc pack`: its options, its words, and its errors. What an archive holds is in tests/unit/model_archive."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from isvc.commands import main
from model_archive.manifest import STOCK_HANDLERS
from tests.support.build_cache import ROOT
from tests.support.model_folder import write_files, write_mar

Captured = pytest.CaptureFixture[str]
VERSION = (
    "'a\\nb' cannot be a version: it is a part of URLs; with --version, give one without spaces, line breaks and '/', "
    "such as 1.0"
)
NAME_IT = "with --model-name, give it one of letters, digits, '_', '-' and '.' that begins with a letter or a digit"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path / "bert", {"handler.py": b"", "weights.pt": bytes(2048), ".env": b"SECRET=1"})
    return tmp_path / "bert"


@pytest.mark.usefixtures("folder")
def test_a_folder_is_packed_and_what_is_in_it_is_listed(capsys: Captured) -> None:
    assert main(["pack", "bert"]) == 0

    assert capsys.readouterr() == (
        f"packed bert.mar ({Path('bert.mar').stat().st_size} B): model bert, version 1.0, handler handler.py\n"
        "FILE         SIZE\n"
        "handler.py   0 B\n"
        "weights.pt   2.0 KiB\n"
        "left out, hidden or made by tools: bert/.env\n",
        "",
    )


@pytest.mark.parametrize("form", ["default", "tgz", "no-archive"])
def test_settings_that_the_servers_warn_of_are_warned_of(folder: Path, form: str, capsys: Captured) -> None:
    write_files(folder, {"model-config.yaml": b"maxBatchDelay: abc\nbatchsize: 8\n"})

    assert (
        main(["pack", "bert", "--archive-format", form, "--export-path", str(folder.parent), "--model-name", "m"]) == 0
    )

    name = {"default": "m.mar", "tgz": "m.tar.gz", "no-archive": "m"}[form]
    assert capsys.readouterr().err == (
        f"isvc: warning: {name}: maxBatchDelay abc has no effect, in TorchServe either; write a whole number from 0 to "
        "2147483647\n"
        f"isvc: warning: {name}: batchsize is left to the handler; did you mean batchSize?\n"
    )


@pytest.mark.parametrize("text", [b"a: [", b"- 1", b"", b"batchSize: 8"])
def test_nothing_is_warned_of_in_other_settings(folder: Path, text: bytes, capsys: Captured) -> None:
    write_files(folder, {"model-config.yaml": text})

    assert main(["pack", "bert"]) == 0

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("folder")
def test_the_json_has_the_checksum(capsys: Captured) -> None:
    assert main(["pack", "bert", "--model-name=b", "-v2.0", "--archive-format=tgz", "-ojson"]) == 0

    content = Path("b.tar.gz").read_bytes()
    assert json.loads(capsys.readouterr().out) == {
        "path": "b.tar.gz",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "model": "b",
        "version": "2.0",
        "handler": "handler.py",
        "files": [{"path": "handler.py", "bytes": 0}, {"path": "weights.pt", "bytes": 2048}],
        "leftOut": ["bert/.env"],
    }


def test_the_options_of_torch_model_archiver_name_single_files(folder: Path) -> None:
    write_files(
        folder.parent,
        {
            "h.py": b"def run(data, context): ...",
            "n.py": b"",
            "w.pt": b"",
            "r.txt": b"",
            "c.yaml": b"",
            "x/a.txt": b"",
            "b.txt": b"",
        },
    )
    (folder.parent / "out").mkdir()
    options = [
        "--model-name", "m", "--version", "3", "--handler", "h.py:run", "--model-file", "n.py", "--serialized-file",
        "w.pt", "--extra-files", "x,b.*", "--requirements-file", "r.txt", "--config-file", "c.yaml", "--runtime",
        "python3", "--export-path", "out", "--archive-format", "zip-store",
    ]  # fmt: skip

    assert main(["pack", *options]) == 0

    with ZipFile("out/m.mar") as archive:
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
        assert set(archive.namelist()) == {
            "MAR-INF/MANIFEST.json", "h.py", "n.py", "w.pt", "a.txt", "b.txt", "r.txt", "c.yaml",
        }  # fmt: skip
    assert manifest == {
        "createdOn": "01/01/1980 00:00:00",
        "runtime": "python3",
        "model": {
            "modelName": "m", "serializedFile": "w.pt", "handler": "h.py:run", "modelFile": "n.py", "modelVersion": "3",
            "requirementsFile": "r.txt", "configFile": "c.yaml",
        },
        "archiverVersion": "0.12.0",
    }  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("seconds", "time"), [("1700000000", (2023, 11, 14, 22, 13, 20)), ("0", (1980, 1, 1, 0, 0, 0))]
)
def test_source_date_epoch_is_the_time(seconds: str, time: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)

    assert main(["pack", "bert"]) == 0

    with ZipFile("bert.mar") as archive:
        assert {info.date_time for info in archive.infolist()} == {time}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("seconds", ["yesterday", "-1", "99999999999", "4354819200"])
def test_another_time_is_refused(seconds: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)

    assert main(["pack", "bert"]) == 2

    fix = "set it to a number of seconds since 1970, before the year 2108"
    assert capsys.readouterr().err == f"isvc: SOURCE_DATE_EPOCH is {seconds!r}; {fix}\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone is not a folder; name the folder with the model's files"),
        (["bert", "--handler=gone.py"], "there is no file gone.py; correct --handler"),
        (["bert", "--handler=image_clasifier"], "there is no file image_clasifier.py; correct --handler, or name "
         f"one of TorchServe's own: {', '.join(STOCK_HANDLERS)}"),
        (["bert", "--export-path=gone"], "gone is not a folder; create it, or name another one with --export-path"),
        (["bert", "--model-name=a b"], f"'a b' cannot be a model's name; {NAME_IT}"),
        (["bert", "--runtime=LSP"], "'LSP' is not a runtime that serves it; use python or python3"),
        (["bert", "--version=a\nb"], VERSION),
        (["--handler=bert/handler.py"], f"the model has no name; {NAME_IT}"),
    ],
    ids=lambda given: given[-1] if isinstance(given, list) else "",
)  # fmt: skip
def test_what_cannot_be_packed_is_exit_code_2(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(["pack", *arguments]) == 2

    assert capsys.readouterr() == ("", f"isvc: {message}\n")


@pytest.mark.parametrize("target", ["secrets", "secrets/key"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, target: str, capsys: Captured) -> None:
    write_files(folder.parent, {"secrets/key": b"1"})
    (folder / "link").symlink_to(folder.parent / target)

    assert main(["pack", "bert"]) == 2

    message = "link is a link that leads out of "
    assert message in capsys.readouterr().err
    assert not Path("bert.mar").exists()


@pytest.mark.usefixtures("folder")
def test_a_link_within_the_folder_is_packed(folder: Path) -> None:
    (folder / "again.pt.txt").symlink_to("weights.pt")

    assert main(["pack", "bert"]) == 0

    with ZipFile("bert.mar") as archive:
        assert archive.read("again.pt.txt") == bytes(2048)


@pytest.mark.process
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/pack.md").read_text()
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    write_files(tmp_path, {"model.py": b"", "mnist.pt": b"1", "handler.py": b"", "volume/notes.txt": b""})
    write_mar(tmp_path / "volume/a.mar")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("packed mnist.mar (")
    assert done.stdout.splitlines()[-1] == "1"


def test_a_class_that_is_called_in_place_of_a_function_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = tmp_path / "own.py"
    handler.write_text("class Own:\n    def initialize(self, _): ...\n    def handle(self, data, _): return data\n")

    code = main(["pack", "--model-name=m", f"--handler={handler}:Onw", f"--export-path={tmp_path}"])

    told = "isvc: warning: own.py has no function Onw, so its class Own is called; write --handler own.py\n"
    assert (code, capsys.readouterr().err) == (0, told)
