"""The rules of the repository itself that a tool would not notice."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OPTIONAL = MANIFESTS / "runtimes-kserve"
CHARTS = MANIFESTS / "charts"  # they name images by the files that they link to
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def git(*arguments: str) -> list[str]:
    """Lines of git's output; `git grep` ends with 1 where it finds nothing."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


# --- the folder `operator` has the name of a module of the standard library -----------------------------


def test_the_folder_operator_is_no_package_and_holds_no_loose_module() -> None:
    assert not list((ROOT / "operator").glob("*.py"))
    assert not (ROOT / "operator" / "src" / "__init__.py").exists()


def test_no_folder_of_tests_is_called_operator() -> None:
    assert not [path for path in (ROOT / "tests").rglob("operator") if path.is_dir()]


@pytest.mark.process
def test_python_started_in_the_root_finds_the_standard_operator_module() -> None:
    code = "import collections, enum, operator; operator.itemgetter; print(operator.__file__)"

    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert Path(found.stdout.strip()) == Path(sysconfig.get_path("stdlib")) / "operator.py"


# --- what is committed -----------------------------------------------------------------------------------

# Put together here, or this file would hold them itself.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("proxy", "golang", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
    )
)
MACHINE_PATHS = tuple("/".join(("", *parts)) for parts in (("work", "main"), ("work", "shared"), ("root", "")))


def test_no_file_names_a_package_registry() -> None:
    assert git("grep", "--fixed-strings", *(f"-e{host}" for host in REGISTRIES)) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    """Dockerfiles speak of the image's own root folder, and /proc/$$/root is that of a process."""
    beginning = f"(^|[^$[:alnum:]])({'|'.join(MACHINE_PATHS)})"
    assert git("grep", "--extended-regexp", beginning, "--", ":!*Dockerfile") == []


def test_every_folder_of_the_top_level_says_what_it_is() -> None:
    folders = {path.partition("/")[0] for path in git("ls-files") if "/" in path and not path.startswith(".")}

    assert [folder for folder in sorted(folders) if not (ROOT / folder / "README.md").exists()] == []


def test_no_two_classes_have_one_name() -> None:
    """Private ones may: nobody reads them outside their module."""
    places: dict[str, set[str]] = {}
    for line in git("grep", "-E", "^class [A-Za-z]", "--", "*.py", ":!tests", ":!examples"):
        module, _, rest = line.partition(":class ")
        places.setdefault(re.split(r"\W", rest)[0], set()).add(module)

    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


# --- versions --------------------------------------------------------------------------------------------


def test_the_changelog_speaks_of_this_version_or_of_what_comes_next() -> None:
    newest = re.search(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert newest is not None
    assert newest[1] in (VERSION, "Unreleased")


def test_manifests_name_the_images_of_this_version_under_the_one_prefix() -> None:
    ours = re.compile(rf"localhost/isvc-operator/[a-z-]+:{re.escape(VERSION)}")

    images = images_of(path for path in MANIFESTS.rglob("*.yaml") if not {OPTIONAL, CHARTS} & {*path.parents})

    assert len(images) >= 3
    assert [image for image in images if not ours.fullmatch(image)] == []


def test_optional_manifests_name_others_images_with_their_registry_and_version() -> None:
    images = images_of(OPTIONAL.glob("*.yaml"))

    assert len(images) >= 7
    assert [image for image in images if not re.fullmatch(r"[a-z]+(\.[a-z]+)+/[a-z/]+:v?\d[\w.-]+", image)] == []


def images_of(paths: Iterable[Path]) -> list[str]:
    return re.findall(r"(?<![\w-])\"?image\"?:\s*\"?([^\s\",]+)", "\n".join(path.read_text() for path in paths))
