"""What builds the images and runs the checks comes by a digest: a tag or a version can be moved to other content."""

from __future__ import annotations

import re

from tests.support.runtimes import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PRODUCT = ("operator", "runtime-images", "storage_initializer")


def dockerfiles(*folders: str) -> list[str]:
    return [path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*Dockerfile*"))]


def test_an_action_is_named_by_its_commit() -> None:
    used = [line.strip() for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]

    assert used
    assert [line for line in used if not re.search(r"uses: [\w/-]+@[0-9a-f]{40}  # v[0-9.]+$", line)] == []


def test_what_an_image_is_built_from_is_named_by_one_digest() -> None:
    named = re.findall(r"^ARG \w+_IMAGE=(\S+)", "".join(dockerfiles(*PRODUCT, "examples", "tests")), re.MULTILINE)
    foreign = {name for name in named if not name.startswith("localhost/isvc-operator/")}

    assert len(foreign) == 1
    assert all(re.search(r"^docker\.io/library/python:[\w.-]+@sha256:[0-9a-f]{64}$", name) for name in foreign)


def test_an_image_gets_the_installer_whose_digest_is_known() -> None:
    commands = re.findall(r"/pip install .*", "".join(dockerfiles(*PRODUCT)))

    assert commands
    assert [command for command in commands if not re.search(r"--requirement (/tmp/)?uv\.txt", command)] == []
    assert re.fullmatch(r"#.*\nuv==[0-9.]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", (ROOT / "uv.txt").read_text())
