"""What `isvc new model` writes: its README's commands, in their order. Those for a cluster are left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from isvc.commands import main
from tests.support.ports import free_port


def test_the_commands_of_a_new_models_readme_do_what_it_says(tmp_path: Path) -> None:
    assert main(["new", "model", "largest", "--into", str(tmp_path)]) == 0
    folder = tmp_path / "largest"
    page = (folder / "README.md").read_text()
    found = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    blocks = [block for block in found if "kubectl" not in block]
    commands = "".join(blocks).replace("isvc run ", f"isvc run --http-port={free_port()} ")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(blocks) == 3
    assert "2 passed" in done.stdout
    assert done.stdout.splitlines()[-1] == '{"predictions":[1,0]}'
    assert 'This prints `{"predictions":[1,0]}`.' in page
