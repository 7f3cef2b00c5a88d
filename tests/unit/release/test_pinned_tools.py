"""What builds the images and runs the checks comes by a digest: a tag or a version can be moved to other content."""

from __future__ import annotations

import re

from tests.support.runtimes import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
IMAGES = sorted(
    path
    for folder in ("operator", "runtime-images", "storage_initializer")
    for path in (ROOT / folder).rglob("*Dockerfile")
)


def test_an_action_is_named_by_its_commit() -> None:
    used = [line.strip() for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]

    assert used
    assert [line for line in used if not re.search(r"uses: [\w/-]+@[0-9a-f]{40}  # v[0-9.]+$", line)] == []


def test_an_image_gets_the_installer_whose_digest_is_known() -> None:
    commands = {path: re.findall(r"/pip install .*", path.read_text()) for path in IMAGES}
    installed = [command for found in commands.values() for command in found]

    assert installed
    assert [command for command in installed if not re.search(r"--requirement (/tmp/)?uv\.txt", command)] == []
    assert re.fullmatch(r"#.*\nuv==[0-9.]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", (ROOT / "uv.txt").read_text())
