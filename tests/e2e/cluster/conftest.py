"""The cluster of `make cluster-up`, a namespace, and volumes with models in them."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.services_page import ServicesPage, services_page
from tests.support.build_cache import sample
from tests.support.cluster import RealCluster
from tests.support.namespace import Namespace
from tests.support.node_programs import is_bare
from tests.support.scheduling import has_the_cluster_to_itself, turn_of
from tests.support.volumes import Volume

# A release's images need a builder that sets the time of files; `make images` builds with docker as well.
collect_ignore = [] if shutil.which("buildah") or shutil.which("podman") else ["test_release_images.py"]
# A node is stopped where it is this host.
collect_ignore += [] if is_bare(os.environ.get("KUBECONFIG")) else ["test_node_outages.py"]
_numbers = itertools.count(int(time.time()) % 100000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn_of(item.path))


@pytest.fixture(scope="module", autouse=True)
def turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Files share the cluster with those of other workers, but for those that change what all services depend on."""
    with (tmp_path_factory.getbasetemp().parent / "turn").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if has_the_cluster_to_itself(request.path) else fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="session")
def cluster() -> RealCluster:
    kubeconfig = os.environ.get("KUBECONFIG")
    assert kubeconfig, "KUBECONFIG is not set; run `make e2e`"
    return RealCluster(Path(kubeconfig), os.environ.get("KUBECTL", "kubectl"))


@pytest.fixture(scope="session")
def bert() -> Path:
    """The content of the story's claim, as the sample's own script makes it."""
    return sample("bert")


@pytest.fixture(scope="session")
def images() -> Path:
    """A folder with ``image_classifier``, and with ``samples.json``."""
    return sample("torchserve")


@pytest.fixture(scope="module")
def namespace(cluster: RealCluster, worker_id: str) -> Iterator[Namespace]:
    """A namespace that forbids pods which are not restricted, as a careful administrator has them."""
    name = f"e2e-{worker_id}-{next(_numbers)}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield Namespace(cluster, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def page(namespace: Namespace) -> Iterator[ServicesPage]:
    """The page of the namespace's services."""
    with services_page(namespace) as opened:
        yield opened


@pytest.fixture(scope="module")
def leeway(namespace: Namespace, bert: Path) -> Iterator[Volume]:
    """The claim ``leeway`` with the story's folders, filled by a pod."""
    with Volume(namespace, "leeway").filled_from(bert) as volume:
        yield volume
