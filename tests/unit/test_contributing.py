"""Every path, target, module and name in the code that the pages for contributors name exists."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = (
    "CONTRIBUTING.md",
    "SECURITY.md",
    "hack/release/README.md",
    ".github/pull_request_template.md",
    ".pre-commit-config.yaml",
)
FILES = re.compile(r"[\w.-]+(/[\w.-]+)*/|([\w.-]+/)*[\w-]+\.(md|py|sh|toml|txt|yaml)|\.?[\w-]+(/[\w.-]+)+|Makefile")
# Such as `KINDS`, `open_source(transfer, plan)` and `optional=True`.
CODE = re.compile(r"[\w.]+(\([\w., ()]*\))?|\w+=\S+")
NAME = re.compile(r"[A-Za-z_]\w*")
RECIPES = re.findall(r"^## (.+\n\n1\. (?:.*\n)+?)(?=\Z|\n## )", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# What `make release` writes, and what a user's own registry is called.
MADE = re.compile(
    r"dist/|.*\.(whl|tar\.gz|json)|install(-\w+)?\.yaml|(runtimes-kserve|dashboard)\.yaml|(constraints-without-hashes|images)\.txt|registry\.example\.com/.*"
)


def spans(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(r"`([^`]+)`", text))


def missing(text: str) -> Iterator[str]:
    """Yield what is named in a page and is not there."""
    for span in spans(text):
        if FILES.fullmatch(span) and not MADE.fullmatch(span) and not (ROOT / span).exists():
            yield span
    for target in re.findall(r"\bmake ([a-z0-9-]+)", text):
        if target not in TARGETS:
            yield f"make {target}"
    for module in re.findall(r"python -m ([\w.]+)", text):
        if importlib.util.find_spec(module) is None:
            yield f"python -m {module}"


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    assert list(missing((ROOT / page).read_text())) == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.partition("\n")[0])
def test_what_a_recipe_names_occurs_in_a_file_of_it(recipe: str) -> None:
    paths = [ROOT / span for span in spans(recipe) if FILES.fullmatch(span)]
    files = {file for path in paths for file in (path, *path.rglob("*.py"), *path.rglob("*.yaml")) if file.is_file()}
    known = {name for file in files for name in NAME.findall(file.read_text())}
    code = [span for span in spans(recipe) if CODE.fullmatch(span) and not FILES.fullmatch(span)]

    assert [span for span in code if not known.issuperset(NAME.findall(span))] == []


def test_the_hosts_of_repositories_run_what_contributors_run() -> None:
    github, gitlab = (
        yaml.safe_load((ROOT / name).read_text()) for name in (".github/workflows/ci.yml", ".gitlab-ci.yml")
    )

    steps = {
        name: [step for step in job["steps"] if "run" in step and step.get("name") != "Make room"]
        for name, job in github["jobs"].items()
    }
    runs = {name: [step["run"] for step in found] for name, found in steps.items()}
    assert runs == {"run": [".ci/run"], "macos": [".ci/macos"]}
    assert all(os.access(ROOT / script, os.X_OK) for scripts in runs.values() for script in scripts)
    assert gitlab["ci"]["script"] == [".ci/run"]
