"""Records what a release renders: `python -m tests.golden.released --rewrite`, as a step of making one.

The goldens of `tests/golden/cases` are what the code of their commit renders, as their own test shows. So they are
copied, with the runtimes and the operator of that commit. Without `--rewrite`, the command prints which pod templates
have changed.
"""

from __future__ import annotations

import argparse
import lzma
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack.release.version import current_version
from isvc_operator.api.parsing import parse_serving_runtime
from tests.golden.templates import changed_paths
from tests.support.last_release import OPERATOR, ROOT, Manifest, Release, ReleasedCase, last_release, write
from tests.support.outcomes import outcome_of
from tests.support.yaml_files import documents

_RUNTIMES = ("manifests/runtimes", "manifests/runtimes-kserve")


def record(tree: Path) -> Release:
    """The release of a checkout, which has no changes."""
    files = [file for folder in _RUNTIMES for file in sorted((tree / folder).glob("*.yaml"))]
    runtimes = [item for file in files for item in documents(file) if item["kind"] == "ClusterServingRuntime"]
    cases = [_case(folder, runtimes) for folder in sorted((tree / "tests/golden/cases").iterdir())]
    return Release(current_version(tree), runtimes, cases)


def _case(folder: Path, runtimes: Sequence[Manifest]) -> ReleasedCase:
    objects, children = (documents(folder / name) for name in ("input.yaml", "children.yaml"))
    inputs = outcome_of(objects, tuple(map(parse_serving_runtime, runtimes))).inputs
    return ReleasedCase(folder.name, objects, children, dict(inputs))


def _operator(tree: Path) -> bytes:
    """The operator's code, as a compressed archive."""
    command = ("git", "archive", "HEAD:operator", "src")
    return lzma.compress(subprocess.run(command, cwd=tree, capture_output=True, check=True).stdout)


def _report() -> Iterator[str]:
    yield f"since version {last_release().version}:"
    for path, cases in sorted(changed_paths().items()):
        yield f"- `{path}` ({', '.join(cases)})"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.released", description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help="record this release in place of the last one")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout whose release is recorded")
    options = parser.parse_args(argv)
    if options.rewrite:
        tree = options.tree.resolve()
        write(record(tree))
        OPERATOR.write_bytes(_operator(tree))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
