"""`python -m tests.support.code_map [--check]`: write docs/code-map.md from the import contracts and the docstrings."""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "code-map.md"
COMMAND = "python -m tests.support.code_map"

Layers = tuple[tuple[str, ...], ...]  # from the top down; modules of one layer know nothing of one another

HEAD = f"""# Code map

<!-- Written by `{COMMAND}` from the import contracts of pyproject.toml and from docstrings. Do not edit. -->

The packages, and the layers of each from the top. A module may import modules of lower layers, and of packages that
its own may import. `make lint` enforces it. How the parts work together is in [how it works](how-it-works.md), how to
change them in [CONTRIBUTING](../CONTRIBUTING.md).
"""


@dataclass(frozen=True)
class Contracts:
    """The import contracts, as far as a table can show them."""

    packages: tuple[str, ...]
    layers: tuple[Layers, ...]
    forbidden: frozenset[tuple[str, str]]

    def layers_inside(self, package: str) -> Layers:
        """Return the layers inside a package; none if no contract has any."""
        inside = (
            found for found in self.layers if all(name.startswith(f"{package}.") for row in found for name in row)
        )
        return next(inside, ())

    def imports_of_packages(self) -> list[tuple[str, str]]:
        """Return which package may import which, without what follows from the others."""
        allowed = {
            (upper, lower)
            for layers in self.layers
            for number, row in enumerate(layers)
            for upper in row
            for below in layers[number + 1 :]
            for lower in below
            if {upper, lower} <= set(self.packages)
        } - self.forbidden
        return sorted(
            (upper, lower)
            for upper, lower in allowed
            if not any((upper, between) in allowed and (between, lower) in allowed for between in self.packages)
        )


def read_contracts(settings: Mapping[str, Any]) -> Contracts:
    """Take the contracts from `[tool.importlinter]`."""
    contracts = settings["contracts"]
    return Contracts(
        packages=tuple(settings["root_packages"]),
        layers=tuple(
            tuple(tuple(name.strip(" ()") for name in row.split("|")) for row in contract["layers"])
            for contract in contracts
            if contract["type"] == "layers"
        ),
        forbidden=frozenset(
            (source, target)
            for contract in contracts
            if contract["type"] == "forbidden"
            for source in contract["source_modules"]
            for target in contract["forbidden_modules"]
        ),
    )


def render(contracts: Contracts, roots: Sequence[Path]) -> str:
    parts = [HEAD, *table_of_packages(contracts)]
    for package in contracts.packages:
        file = file_of(package, roots)
        parts += ["", f"## {package}", "", f"[`{shown(file)}`]({link(file)}). {summary(file)}"]
        rows = contracts.layers_inside(package)
        if rows:
            parts += ["", "| layer | module | what it is |", "|---|---|---|"]
            parts += [
                f"| {layer} | {table_row(name, file_of(name, roots))}"
                for layer, row in enumerate(rows, 1)
                for name in row
            ]
    return "\n".join(parts) + "\n"


def table_of_packages(contracts: Contracts) -> Iterator[str]:
    """Return the lines of a table: each package, and those that are directly below it."""
    imports = list(contracts.imports_of_packages())
    yield "| package | may import, with what these may |"
    yield "|---|---|"
    for package in contracts.packages:
        below = ", ".join(f"[{lower}](#{lower})" for upper, lower in imports if upper == package)
        yield f"| [{package}](#{package}) | {below or 'nothing of ours'} |"


def table_row(name: str, file: Path) -> str:
    return f"[`{name.partition('.')[2]}`]({link(file)}) | {summary(file)} |"


def file_of(module: str, roots: Sequence[Path]) -> Path:
    """Return the file of a module, the __init__.py of a package."""
    for root in roots:
        path = root / module.replace(".", "/")
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.exists():
                return file
    raise LookupError(f"no folder of {', '.join(map(str, roots))} has the module {module}")


def summary(file: Path) -> str:
    """Return the first paragraph of a module's docstring, as one line."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not docstring:
        raise LookupError(f"{file.relative_to(ROOT)} has no docstring")
    return " ".join(docstring.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def shown(file: Path) -> str:
    return (file.parent if file.name == "__init__.py" else file).relative_to(ROOT).as_posix()


def link(file: Path) -> str:
    return f"../{shown(file)}"


def rendered() -> str:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return render(read_contracts(tools["importlinter"]), [ROOT / folder for folder in tools["mypy"]["mypy_path"]])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write docs/code-map.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    if parser.parse_args(argv).check:
        if PAGE.read_text(encoding="utf-8") == rendered():
            return 0
        sys.stderr.write(f"docs/code-map.md is not up to date; run {COMMAND}\n")
        return 1
    PAGE.write_text(rendered(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
