"""Fixtures of the tests that need a real API server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer, AssetsMissing, find_assets, running

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of etcd, kube-apiserver and kubectl."""
    try:
        return find_assets(os.environ.get("KUBEBUILDER_ASSETS"))
    except AssetsMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def apiserver(assets: Path) -> Iterator[ApiServer]:
    """An API server that knows our custom resources."""
    with running(assets) as server:
        server.kubectl("apply", "--server-side", f"--filename={CRDS}")
        server.kubectl("wait", "--for=condition=Established", f"--filename={CRDS}", "--timeout=30s")
        yield server
