"""docs/huggingface.md leads from a model as transformers saves it to predictions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.models.packages import installed
from tests.support.build_cache import ROOT
from tests.support.doc_shell import DocShell, find
from tests.support.isvc_process import new_sandbox, read_until, stop

PAGE = "docs/huggingface.md: "


def test_the_folder_of_the_page_answers_as_it_shows(tmp_path: Path) -> None:
    path = os.pathsep.join(map(str, (installed().site, ROOT)))
    build = [sys.executable, "-m", "tests.models.sentiment", str(tmp_path / "sentiment")]
    subprocess.run(build, check=True, env={**os.environ, "PYTHONPATH": path})

    with (
        new_sandbox(tmp_path) as sandbox,
        sandbox.running(tmp_path / "sentiment", environment={"PYTHONPATH": path}) as process,
    ):
        said = read_until(process.stdout, "Ctrl-C stops it.")
        shell = DocShell.beside_examples(tmp_path).swapping({"127.0.0.1:8080": f"127.0.0.1:{sandbox.port}"})
        exchanges = shell.talk(f"{PAGE}$ curl")
        stop(process)

    assert find(f"{PAGE}isvc run").text == "isvc run sentiment\n"
    assert f"sentiment:predict -T {tmp_path}/sentiment/sample.json" in said
    assert [re.sub(r"0\.99\d+", "0.99…", one.printed) for one in exchanges] == [one.shown for one in exchanges]
