"""The files of the stories, as `kubectl apply` sends them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.stories.stories import STORIES
from tests.support.apiserver import ApiServer

FILES = [service.file for story in STORIES for service in story.services]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_kubectl_applies_the_file_of_a_story_without_a_warning(
    apiserver: ApiServer, namespace: str, file: Path
) -> None:
    command = [apiserver.assets / "kubectl", f"--kubeconfig={apiserver.kubeconfig}", f"--namespace={namespace}"]
    command += [f"--cache-dir={apiserver.kubeconfig.parent / 'kubectl'}", "apply", "--dry-run=server"]
    done = subprocess.run([*command, f"--filename={file}"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" created (server dry run)\n")
