"""The SDK as its users install it, on each Python that it supports and that is on this machine; ours always is."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually
from transformer_sdk.testing import FakePredictor

SDK, DATA_PLANE = ROOT / "transformer_sdk", ROOT / "runtime-images/common/src/data_plane"
CLASSIFIERS = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]["classifiers"]
SUPPORTED = [one.rpartition(" ")[2] for one in CLASSIFIERS if re.search(r":: 3\.\d+$", one)]
OWN = "{}.{}".format(*sys.version_info)
# Compiled once for the two tests, whatever the suite itself does.
USERS = {"PYTHONPATH": "", "PYTHONHOME": "", "VIRTUAL_ENV": "", "PYTHONDONTWRITEBYTECODE": ""}


def found(version: str) -> str | None:
    """The interpreter of a version, by pyenv or on PATH; pyenv's shims run the version that is chosen and no other."""
    if version == OWN:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    installed = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    on_path = shutil.which(f"python{version}")
    return next((path for path in (*installed, on_path) if path and "/shims/" not in path), None)


PYTHONS = {version: path for version in SUPPORTED if (path := found(version))}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The SDK's, and that of what it is built on, as pip takes them."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in (SDK, DATA_PLANE):
        run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)], source)
    (sdk,), (data_plane,) = folder.glob("isvc_transformer_sdk-*.whl"), folder.glob("isvc_data_plane-*.whl")
    return [f"{sdk}[fast]", str(data_plane)]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transformer that users start from."""
    folder = tmp_path_factory.mktemp("new")
    run([str(Path(sys.executable).with_name("isvc")), "new", "transformer", "digits"], folder)
    return folder / "digits"


@pytest.fixture(params=PYTHONS, scope="module")
def python(request: pytest.FixtureRequest, wheels: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of an environment that has the SDK, what it needs, and pytest."""
    uv, environment = str(Path(sys.executable).with_name("uv")), tmp_path_factory.mktemp(request.param)
    run([uv, "venv", "--quiet", "--clear", "--python", PYTHONS[request.param], str(environment)])
    python = str(environment / "bin/python")
    run([uv, "pip", "install", "--quiet", "--python", python, *wheels, "pytest"])
    return python


def run(command: list[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_version_that_runs_the_suite_is_supported() -> None:
    assert OWN in PYTHONS


def test_an_installation_has_all_that_it_needs(python: str) -> None:
    run([str(Path(sys.executable).with_name("uv")), "pip", "check", "--quiet", "--python", python])


def test_the_tests_of_a_new_transformer_pass(python: str, digits: Path) -> None:
    """Nothing that they import may warn: of what the next Python has no more."""
    said = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"], digits, USERS)

    assert "3 passed" in said


def test_a_request_goes_through_a_server(python: str, digits: Path, tmp_path: Path) -> None:
    with (
        FakePredictor(lambda instances: [7 for _ in instances]) as predictor,
        serving(python, digits, predictor.host, tmp_path / "log") as port,
    ):
        assert ask(port, "POST", "/v1/models/digits:predict", b'{"instances": [[0, 255]]}') == (
            200, {"predictions": [{"label": 7}]},
        )  # fmt: skip


@contextlib.contextmanager
def serving(python: str, folder: Path, predictor: str, log: Path) -> Iterator[int]:
    """On the port that it yields; it ends by itself when it is told to."""
    port = free_port()
    command = [python, "model.py", "--model_name=digits", f"--predictor_host={predictor}", f"--http_port={port}"]
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **USERS}, stdout=written, stderr=written)

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            return ask(port, "GET", "/v1/models/digits")[0] == 200
        return False

    try:
        eventually(is_ready, "the transformer is ready", 60, log.read_text)
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, object]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
