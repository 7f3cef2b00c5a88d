"""docs/transformers.md: what needs no cluster. tests/e2e/cluster/test_transformers_page.py runs all of its commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.doc_shell import find
from tests.support.transformers_page import BLOCKS, PAGE, make_checkout, walk

ELSEWHERE = ("docker ", "kubectl ", "bash ../tests/cluster/")


@dataclass(frozen=True)
class Walked:
    """The folder after the commands of the page, and what they said."""

    folder: Path
    said: str


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """Beside the tests of the new transformer is the one that the page shows, so that the page's pytest runs it too."""
    folder = tmp_path_factory.mktemp("checkout")
    make_checkout(folder)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (folder / "test_page.py").write_text(code)
    new, *others = (block for block in BLOCKS if not block.startswith(ELSEWHERE))
    return Walked(folder, walk(folder, "\n".join([new, "cp ../test_page.py .", *others]), timeout_s=150))


@pytest.mark.timeout(180)
def test_the_commands_of_the_page_do_what_it_says(walked: Walked) -> None:
    assert len([block for block in BLOCKS if block.startswith(ELSEWHERE)]) == 3
    assert len(re.findall(r'\{"predictions":\[\{"label":\d\}\]\}', walked.said)) == 3, walked.said
    assert "server-timing: preprocess;dur=" in walked.said
    assert 'request_postprocess_seconds_count{model_name="mnist"} 2.0' in walked.said


def test_the_tests_of_a_new_transformer_pass_and_so_does_the_one_on_the_page(walked: Walked) -> None:
    assert "7 passed" in walked.said


def test_the_service_is_what_a_cluster_takes(walked: Walked, apiserver: ApiServer, namespace: str) -> None:
    file = walked.folder / "digits/inferenceservice.yaml"

    apiserver.kubectl("apply", "--namespace", namespace, "-f", str(file))

    (service,) = yaml.safe_load_all(file.read_text())
    (container,) = service["spec"]["transformer"]["containers"]
    assert container["image"] == re.search(r"docker build -t (\S+)", PAGE)[1]  # type: ignore[index]


@pytest.mark.parametrize("command", ["python model.py", "isvc run"])
def test_the_page_runs_the_commands_of_a_new_transformers_readme(command: str) -> None:
    text = find(f"templates/transformer/README.md.template: {command}").text.strip()
    given = {"_name {{name}}": "_name mnist", "{{name}}=FOLDER": "digits=../build/mnist/mar"}
    for placeholder, value in given.items():
        text = text.replace(placeholder, value)

    assert text in "".join(BLOCKS)
