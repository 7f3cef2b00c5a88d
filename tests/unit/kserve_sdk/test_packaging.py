"""What an installation of the SDK needs, and what an import of it brings."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "runtime-images/common/src/data_plane/pyproject.toml").read_text())["project"]
HEAVY = {"torch", "kubernetes", "pandas", "numpy", "grpc", "aiohttp", "httpx", "fastapi", "pydantic"}


def imported_by(code: str) -> set[str]:
    """Top-level modules of a fresh process."""
    shown = "import sys; before = set(sys.modules); exec(sys.argv[1]); print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", shown, code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {module.partition(".")[0] for module in done.stdout.split()}


def test_the_core_needs_six_packages_and_on_python_3_10_one_more() -> None:
    assert [re.split("[>=]", one)[0] for one in PROJECT["dependencies"]] == [
        "uvicorn", "httptools", "orjson", "msgspec", "prometheus-client", "aiohttp", "async-timeout",
    ]  # fmt: skip


def test_the_version_is_the_projects() -> None:
    assert PROJECT["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.process
def test_the_package_alone_brings_nothing_along() -> None:
    assert imported_by("import transformer_sdk") <= {"transformer_sdk", "typing", "re", "enum", "types"} | set(
        sys.stdlib_module_names
    )


@pytest.mark.process
def test_models_and_servers_bring_nothing_heavy_along() -> None:
    code = "from transformer_sdk.kserve import Model, ModelServer, model_server, InferRequest, InferenceRESTClient"

    assert imported_by(code) & HEAVY == set()


@pytest.mark.process
def test_a_server_that_runs_brings_nothing_heavy_along() -> None:
    code = "import transformer_sdk.kserve.serving.processes, transformer_sdk.testing"

    assert imported_by(code) & HEAVY == set()


@pytest.mark.process
def test_the_package_itself_has_kserves_names() -> None:
    code = (
        "import transformer_sdk as kserve\n"
        "from transformer_sdk import Model, ModelServer, model_server\n"
        "assert kserve.Model is Model and model_server.parser and model_server.ModelServer is ModelServer"
    )

    assert "transformer_sdk" in imported_by(code)
