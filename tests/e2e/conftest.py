"""The cluster of `make cluster-up`, a namespace, and volumes with models in them."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import RealCluster
from tests.support.namespace import Namespace
from tests.support.volumes import Volume

ROOT = Path(__file__).parents[2]
# A release's images need a builder that sets the time of files; `make images` builds with docker as well.
collect_ignore = [] if shutil.which("buildah") or shutil.which("podman") else ["test_release_images.py"]
_numbers = itertools.count(int(time.time()) % 100000)


@pytest.fixture(scope="session")
def cluster() -> RealCluster:
    kubeconfig = os.environ.get("KUBECONFIG")
    assert kubeconfig, "KUBECONFIG is not set; run `make e2e`"
    return RealCluster(Path(kubeconfig), os.environ.get("KUBECTL", "kubectl"))


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the story's claim, as the sample's own script makes it."""
    folder = tmp_path_factory.mktemp("bert")
    subprocess.run([sys.executable, "examples/bert/build.py", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def namespace(cluster: RealCluster) -> Iterator[Namespace]:
    """A namespace that forbids pods which are not restricted, as a careful administrator has them."""
    name = f"e2e-{next(_numbers)}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield Namespace(cluster, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def leeway(namespace: Namespace, bert: Path) -> Iterator[Volume]:
    """The claim ``leeway`` with the story's folders, filled by a pod."""
    with Volume(namespace, "leeway").filled_from(bert) as volume:
        yield volume
