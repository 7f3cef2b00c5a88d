"""Fixtures of the tests that need a real API server."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc_operator.kube.requests import path_of
from tests.support.apiserver import ApiServer, AssetsMissing, Refused, find_assets, install_crds, running

_numbers = itertools.count(1)


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
        install_crds(server)
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> Iterator[str]:
    """The name of a namespace that nobody else uses; an operator of another module finds no services there."""
    name = f"test-{next(_numbers)}"
    apiserver.create_namespace(name)
    yield name
    with contextlib.suppress(Refused):  # the CRD is not installed any more
        apiserver.send("DELETE", path_of("InferenceService", name))
