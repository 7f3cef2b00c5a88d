"""One version, in every place that names it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import isvc.commands
from hack.release.version import ROOT, Mention, current_version, main, mentions, write_version

PYPROJECT = '[project]\nname = "isvc-operator"\nversion = "0.1.0"\ndependencies = ["isvc-data-plane[grpc]==0.1.0"]\n'
# Put together here, or these would be such places themselves.
IMAGE = "/".join(("localhost", "isvc-operator", "mar"))
FILES = {
    "pyproject.toml": PYPROJECT,
    "docs/page.md": f"The package is 0.1.0, the image {IMAGE}:0.1.0; another is example.com/mar:0.1.0.\n",
    "docs/install.md": "helm install isvc-operator-crds-0.1.0.tgz other-0.1.0.tgz; TAG=0.1.0 make\n",
    "code/__init__.py": '__version__ = "0.1.0"\n',
    "tests/golden/cases/one/children.yaml": f"image: {IMAGE}:0.0.7\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def test_isvc_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert isvc.commands.main(["--version"]) == 0
    assert capsys.readouterr().out == f"isvc {current_version()}\n"


def test_make_names_the_images_by_that_version() -> None:
    command = ["make", "--silent", "--eval=tag: ; @echo $(TAG)", "tag"]
    environment = {name: value for name, value in os.environ.items() if name not in ("TAG", "MAKEFLAGS")}

    printed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    assert printed.stdout.strip() == current_version()


def test_a_place_is_found_with_its_line_and_the_goldens_are_left_to_their_suite(repository: Path) -> None:
    assert sorted(mentions(repository), key=str) == [
        Mention("code/__init__.py", 1, "0.1.0"),
        Mention("docs/install.md", 1, "0.1.0"),
        Mention("docs/install.md", 1, "0.1.0"),
        Mention("docs/page.md", 1, "0.1.0"),
        Mention("pyproject.toml", 3, "0.1.0"),
        Mention("pyproject.toml", 4, "0.1.0"),
    ]


def test_another_version_is_written_into_every_place_and_nowhere_else(repository: Path) -> None:
    write_version("0.2.0rc1", repository)

    assert {name: (repository / name).read_text() for name in FILES} == {
        "pyproject.toml": PYPROJECT.replace("0.1.0", "0.2.0rc1"),
        "docs/page.md": FILES["docs/page.md"].replace(f"{IMAGE}:0.1.0", f"{IMAGE}:0.2.0rc1"),
        "docs/install.md": "helm install isvc-operator-crds-0.2.0rc1.tgz other-0.1.0.tgz; TAG=0.2.0rc1 make\n",
        "code/__init__.py": '__version__ = "0.2.0rc1"\n',
        "tests/golden/cases/one/children.yaml": FILES["tests/golden/cases/one/children.yaml"],
    }


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["next"])
