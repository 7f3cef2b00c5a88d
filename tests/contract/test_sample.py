"""The sample that people apply is the first story: in the goldens, and on the pages that show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "examples" / "bert" / "inferenceservice.yaml").read_text()

# Runs a file, and sends SIGINT to itself when a module is imported, as Ctrl-C would at that moment.
_INTERRUPTED = """
import os, runpy, signal, sys
_, file, sys.argv[1:], module = sys.argv[0], sys.argv[1], sys.argv[2:-1], sys.argv[-1]

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
runpy.run_path(file, run_name="__main__")
"""


def test_the_samples_service_is_the_one_that_is_rendered_in_the_goldens() -> None:
    sample = yaml.safe_load(SAMPLE)
    story = yaml.safe_load((ROOT / "tests" / "golden" / "cases" / "story-bert-from-a-pvc" / "input.yaml").read_text())

    assert (sample["metadata"]["name"], sample["spec"]) == (story["metadata"]["name"], story["spec"])


@pytest.mark.parametrize("page", ["README.md", "docs/first-model.md"])
def test_a_page_shows_the_sample_as_it_is(page: str) -> None:
    assert f"```yaml\n{SAMPLE}```" in (ROOT / page).read_text()


@pytest.mark.process
def test_ctrl_c_ends_the_build_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, ROOT / "examples/bert/build.py", tmp_path, "torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (130, "")
    assert list(tmp_path.iterdir()) == []
