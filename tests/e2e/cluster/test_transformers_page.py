"""docs/transformers.md on the cluster: each of its commands as it stands, in order, from nothing to a prediction.

Only names change: ports of this machine, and the namespace in the service's host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build_cache import sample
from tests.support.namespace import Namespace
from tests.support.transformers_page import BLOCKS, make_checkout, walk
from tests.support.volumes import Volume

# What builds as `docker build` does, where there is no daemon for docker.
BUILDAH = """#!/bin/sh
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=overlay
[ "$1" = build ] && exec buildah "$@"
echo "there is no daemon: $*" >&2
exit 1
"""


@pytest.fixture
def folder(tmp_path: Path, namespace: Namespace) -> Path:
    """Like a checkout, with `kubectl` for the namespace and a `docker` in `bin`."""
    make_checkout(tmp_path)
    kubeconfig = shutil.copy(os.environ["KUBECONFIG"], tmp_path / "kubeconfig")
    namespace.server.kubectl(
        "config", "set-context", "--current", f"--namespace={namespace.name}", f"--kubeconfig={kubeconfig}"
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    kubectl = shutil.which(os.environ.get("KUBECTL", "kubectl"))
    assert kubectl
    (programs / "kubectl").symlink_to(kubectl)
    if not docker_answers():
        (programs / "docker").write_text(BUILDAH)
        (programs / "docker").chmod(0o755)
    return tmp_path


def docker_answers() -> bool:
    return shutil.which("docker") is not None and not subprocess.call(["docker", "info"], stdout=subprocess.DEVNULL)


@pytest.mark.timeout(400)
def test_the_page_leads_from_an_empty_folder_to_a_prediction(folder: Path, namespace: Namespace) -> None:
    commands = "\n".join(BLOCKS)
    assert "digits.default.example.com" in commands

    with Volume(namespace, "digits").filled_from(sample("mnist") / "mar"):
        said = walk(
            folder,
            commands.replace("digits.default", f"digits.{namespace.name}"),
            timeout_s=300,
            KUBECONFIG=str(folder / "kubeconfig"),
            PATH=os.pathsep.join(map(str, (folder / "bin", Path(sys.executable).parent, os.environ["PATH"]))),
        )

    assert re.search(r"^digits +http://digits\S+ +True", said, re.MULTILINE), said
    assert len(re.findall(r'\{"predictions":\[\{"label":\d\}\]\}', said)) == 4, said
