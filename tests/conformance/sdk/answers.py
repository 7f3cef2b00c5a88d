"""`python -m tests.conformance.sdk.answers PACKAGE` prints the names that this SDK has, and its answer to each case."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
import warnings
from typing import Any

from tests.conformance.sdk import CASE_MODULES, surface
from tests.conformance.sdk.case import CASES, Sdk
from tests.support.runtimes import ROOT


def of(package: str, names: list[str]) -> dict[str, Any]:
    """Those of a process of its own; without names, it is asked about those that KServe has."""
    command = [sys.executable, "-m", __name__, package]
    asked = json.dumps(names).encode()
    ran = subprocess.run(command, cwd=ROOT, input=asked, capture_output=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr.decode()
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


def load_cases() -> None:
    for module in CASE_MODULES:
        importlib.import_module(module)


def main(package: str) -> None:
    warnings.simplefilter("ignore")
    sys.argv[1:] = []  # the SDKs read the command line
    logging.disable()
    load_cases()
    answers = {one.id: one.outcome(Sdk(package)) for one in CASES}
    assert len(answers) == len(CASES), "two cases have one name"
    names = json.load(sys.stdin) or surface.of_kserve()
    print(json.dumps({"names": {name: surface.described(package, name) for name in names}, "cases": answers}))


if __name__ == "__main__":
    main(sys.argv[1])
