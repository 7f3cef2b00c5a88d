"""A service that is new, and one that is up."""

from __future__ import annotations

import pytest

from tests.support.builders import a_ready_pod, a_runtime_body, a_service_body
from tests.support.reconcile_fixture import Cluster, cluster_with


@pytest.fixture
def cluster() -> Cluster:
    return cluster_with(a_service_body(), a_runtime_body())


@pytest.fixture
async def serving(cluster: Cluster) -> Cluster:
    """A service that is up, and everybody knows it."""
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    return cluster
