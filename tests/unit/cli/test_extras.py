"""A package that is not installed is named in one line, with the extra that has it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from isvc import extras
from isvc.commands import main
from tests.support.isvc_process import new_sandbox
from tests.support.local_services import write_yaml

Captured = pytest.CaptureFixture[str]
PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "largest"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://models"}}},
}


def needs(module: str, extra: str) -> str:
    return f"this needs the package {module}, which is not installed; run: pip install 'isvc-operator[{extra}]'"


def without(module: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `isvc` in a Python of its own that has no such module."""
    script = f"import sys; sys.modules[{module!r}] = None; from isvc.console import main; raise SystemExit(main())"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("extra", ["operator", "validate", "cli", "storage"])
def test_every_package_of_an_extra_has_its_line(extra: str) -> None:
    names = (re.split(r"[^\w-]", package)[0] for package in PROJECT["project"]["optional-dependencies"][extra])
    packages = {name.lower().replace("_", "-") for name in names} - {"isvc-operator"}

    named = {
        owner.lower().replace("_", "-")
        for module, owners in packages_distributions().items()
        for owner in owners
        if extras.advice(module)
    }

    assert packages - named == set()


@pytest.mark.parametrize(
    ("left", "command"),
    [
        ("uv-receipt.toml", "uv tool install 'isvc-operator[local]'"),
        ("pipx_metadata.json", "pipx install --force 'isvc-operator[local]'"),
        ("pyvenv.cfg", "pip install 'isvc-operator[local]'"),
    ],
)
def test_the_command_is_that_of_the_installer(
    left: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / left).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert str(extras.advice("torch")).endswith(f"; run: {command}")


def test_a_module_of_no_extra_is_a_mistake_of_ours() -> None:
    assert [extras.advice(name) for name in (None, "isvc_operator.nothing", "telnetlib")] == [None, None, None]


def test_nobody_but_the_path_is_asked_for_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for pip, setuptools' finder takes back its distutils, and setuptools cannot be imported any more."""

    class Setuptools(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            assert fullname != "pip"

    monkeypatch.setattr(sys, "meta_path", [Setuptools(), *sys.meta_path])

    assert extras.to_install("telnetlib", ()).endswith(" telnetlib")


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("aiohttp", ["bench", "http://127.0.0.1:1/"], "cli"),
        ("aiohttp", ["status"], "cli"),
        ("jsonschema_rs", ["validate", "service.yaml"], "validate"),
        ("watchfiles", ["run", "service.yaml", "--watch"], "local"),
    ],
)
@pytest.mark.process
def test_a_command_says_what_it_lacks(module: str, arguments: list[str], extra: str, tmp_path: Path) -> None:
    write_yaml(tmp_path / "service.yaml", SERVICE)

    done = without(module, *arguments, folder=tmp_path)

    assert (done.returncode, done.stderr) == (2, f"isvc: {needs(module, extra)}\n")


@pytest.mark.process
@pytest.mark.parametrize("missing", ["data_plane", "torch"])
def test_a_run_says_it_before_anything_starts(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == missing else found(name))
    (tmp_path / "models").mkdir()
    with new_sandbox(tmp_path) as sandbox:
        done = sandbox.run(write_yaml(tmp_path / "service.yaml", SERVICE), "--pvc", f"models={tmp_path / 'models'}")

    line = f"isvc: largest/kserve-container runs mar_runtime: {needs(missing, 'local')}\n"
    assert (done.returncode, done.stderr) == (2, line)


@pytest.mark.process
@pytest.mark.parametrize(
    ("missing", "said"),
    [("onnxruntime", needs("onnxruntime", "cli,onnx")), ("torch", "by onnxruntime"), ("ts", "by onnxruntime")],
)
def test_an_onnx_file_needs_no_torch(missing: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == missing else found(name))
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a\0")  # with a graph of nothing
    (tmp_path / "request.json").write_text("{}")
    with new_sandbox(tmp_path) as sandbox:
        done = sandbox.run(tmp_path / "m.onnx", "--request", tmp_path / "request.json")

    assert said in done.stderr, done.stderr


@pytest.mark.process
def test_the_bare_wheel_says_what_it_lacks(tmp_path: Path) -> None:
    done = without("click", "--help", folder=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"isvc: {needs('click', 'cli')}\n")


@pytest.mark.process
def test_to_inspect_what_needs_more_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ModuleNotFoundError(\"No module named 'huggingface_hub'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert main(["inspect", "hf://nobody/nothing"]) == 2

    assert capsys.readouterr().err == f"isvc: hf://nobody/nothing: {needs('huggingface_hub', 'cli,storage')}\n"
