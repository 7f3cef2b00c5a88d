"""docs/transformers.md: what needs no cluster. All of its commands are run by tests/e2e/test_transformers_page.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.transformers_page import BLOCKS, PAGE, make_checkout, page_environment, walk

ELSEWHERE = ("docker ", "kubectl ", "bash ../tests/cluster/")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_checkout(tmp_path)
    return tmp_path


@pytest.mark.timeout(180)
def test_the_commands_of_the_page_do_what_it_says(folder: Path) -> None:
    here = [block for block in BLOCKS if not block.startswith(ELSEWHERE)]
    assert len(BLOCKS) - len(here) == 3

    said = walk(folder, "\n".join(here), timeout_s=150)

    assert "3 passed" in said
    assert len(re.findall(r'\{"predictions":\[\{"label":\d\}\]\}', said)) == 3, said
    assert "server-timing: preprocess;dur=" in said
    assert 'request_postprocess_seconds_count{model_name="mnist"} 2.0' in said


def test_the_code_of_the_page_runs(folder: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    _isvc(folder, "new", "transformer", "digits")
    (folder / "digits/test_model.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=."], cwd=folder / "digits",
        capture_output=True, text=True, env=page_environment(folder), check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_service_is_what_a_cluster_takes(folder: Path, apiserver: ApiServer, namespace: str) -> None:
    _isvc(folder, "new", "transformer", "digits")

    apiserver.kubectl("apply", "--namespace", namespace, "-f", str(folder / "digits/inferenceservice.yaml"))

    (service,) = yaml.safe_load_all((folder / "digits/inferenceservice.yaml").read_text())
    (container,) = service["spec"]["transformer"]["containers"]
    assert container["image"] == re.search(r"docker build -t (\S+)", PAGE)[1]  # type: ignore[index]


def _isvc(folder: Path, *arguments: str) -> None:
    program = Path(sys.executable).with_name("isvc")
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)
