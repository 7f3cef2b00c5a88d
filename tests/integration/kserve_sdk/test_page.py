"""docs/transformers.md: its commands are run in order, in one shell, on ports that are free."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.runtimes import ROOT, free_ports

PAGE = (ROOT / "docs/transformers.md").read_text(encoding="utf-8")
# What stands for the user's cluster and builder: their own commands are in test_the_service_is_what_a_cluster_takes.
ELSEWHERE = ("docker ", "kubectl ")


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Beside the samples, as the page has it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_the_commands_of_the_page_do_what_it_says(folder: Path) -> None:
    here = [block for block in blocks() if not block.startswith(ELSEWHERE)]
    assert len(blocks()) - len(here) == 2

    log = (folder / "log").open("wb")
    shell = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", _moved("\n".join(here), folder)], cwd=folder, stdout=log, stderr=log,
        start_new_session=True, env={**os.environ, **_environment(folder)},
    )  # fmt: skip
    try:
        code = shell.wait(timeout=110)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        log.close()
    said = (folder / "log").read_text()

    assert code == 0, said
    assert "3 passed" in said
    assert re.search(r'\{"predictions":\[\{"label":\d\}\]\}', said), said
    assert "server-timing: preprocess;dur=" in said
    assert 'request_postprocess_seconds_count{model_name="mnist"} 2.0' in said


def test_the_code_of_the_page_runs(folder: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    _isvc(folder, "new", "transformer", "digits")
    (folder / "digits/test_model.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=."], cwd=folder / "digits",
        capture_output=True, text=True, env={**os.environ, **_environment(folder)}, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_service_is_what_a_cluster_takes(folder: Path, apiserver: ApiServer, namespace: str) -> None:
    _isvc(folder, "new", "transformer", "digits")

    apiserver.kubectl("apply", "--namespace", namespace, "-f", str(folder / "digits/inferenceservice.yaml"))

    (service,) = yaml.safe_load_all((folder / "digits/inferenceservice.yaml").read_text())
    (container,) = service["spec"]["transformer"]["containers"]
    assert container["image"] == re.search(r"docker build -t (\S+)", PAGE)[1]  # type: ignore[index]


def _moved(commands: str, folder: Path) -> str:
    """To ports and a folder that nobody else uses."""
    free = map(str, free_ports(2))
    for taken, own in (("8085", next(free)), ("8090", next(free)), ("/tmp/mnist", str(folder / "work"))):
        assert taken in commands
        commands = commands.replace(taken, own)
    return commands


def _isvc(folder: Path, *arguments: str) -> None:
    subprocess.run([_program("isvc"), *arguments], cwd=folder, check=True, capture_output=True)


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _environment(folder: Path) -> dict[str, str]:
    found = shutil.which("curl")
    assert found, "curl is not installed"
    sources = (ROOT, ROOT / "runtime-images/mar/src")
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "TERMINATION_LOG": str(folder / "ended"),
    }
