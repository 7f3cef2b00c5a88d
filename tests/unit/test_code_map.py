"""docs/code-map.md says what the import contracts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.code_map import Contracts, main, picture, read_contracts, summary

CONTRACTS = Contracts(
    packages=("server", "sdk", "compat", "base"),
    layers=(
        (("server", "sdk"), ("compat",), ("base",)),
        (("base.queue", "base.pool"), ("base.model",)),
    ),
    forbidden=frozenset({("sdk", "compat")}),
)


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_contracts_are_read_as_import_linter_has_them() -> None:
    settings = {
        "root_packages": ["server", "sdk", "compat", "base"],
        "contracts": [
            {"type": "layers", "layers": ["server | sdk", "compat", "base"]},
            {"type": "forbidden", "source_modules": ["sdk"], "forbidden_modules": ["compat"]},
            {"type": "layers", "layers": ["(base.queue) | base.pool", "base.model"]},
            {"type": "independence", "modules": ["server", "sdk"]},
        ],
    }

    assert read_contracts(settings) == CONTRACTS


def test_the_picture_has_each_package_with_its_layers_and_what_it_may_import() -> None:
    assert list(picture(CONTRACTS)) == [
        "flowchart TD",
        "  server",
        "  sdk",
        "  compat",
        "  subgraph base",
        '    base_queue["queue, pool"]',
        '    base_model["model"]',
        "    base_queue --> base_model",
        "  end",
        "  compat --> base",
        "  sdk --> base",
        "  server --> compat",
    ]


def test_a_module_without_a_docstring_is_refused_by_name() -> None:
    with pytest.raises(LookupError, match=r"^hack/release/__init__\.py has no docstring$"):
        summary(Path(__file__).parents[2] / "hack" / "release" / "__init__.py")
