"""A second namespace for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isvc_operator.kube.requests import path_of
from tests.support.apiserver import ApiServer


@pytest.fixture
def another(apiserver: ApiServer, namespace: str) -> Iterator[str]:
    """Another namespace."""
    name = f"{namespace}-b"
    apiserver.create_namespace(name)
    yield name
    apiserver.send("DELETE", path_of("InferenceService", name))
