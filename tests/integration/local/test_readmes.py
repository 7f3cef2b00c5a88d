"""The commands of the examples' READMEs that need no cluster, and make's for the sample."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build_cache import ROOT, sample
from tests.support.doc_shell import DocShell
from tests.support.ports import free_port, unbound_port
from tests.support.runtimes import java_home

pytestmark = pytest.mark.process
BERT = "examples/bert/README.md: "
MNIST = "examples/mnist/README.md: "
PICTURES = "examples/resnet50/README.md: "
FROM_TORCHSERVE = "docs/from-torchserve.md: "
TORCHSERVE = "examples/torchserve/README.md: "
LAYERS = "1,1,1,1"  # of the network that the tests keep: fifty take long to build


@pytest.fixture
def shell(tmp_path: Path) -> DocShell:
    """In a new checkout, on ports that are free."""
    ports = {taken: str(free_port()) for taken in ("8080", "8085")}
    return DocShell.beside_examples(tmp_path).swapping(
        {
            "mar_runtime --model-dir": "mar_runtime --host 127.0.0.1 --grpc-port 0 --http-port 8080 --model-dir",
            "/tmp/mnist": str(tmp_path / "work"),
            **ports,
        }
    )


def test_an_archive_of_mnist_predicts_the_digit(shell: DocShell) -> None:
    shutil.copytree(sample("mnist"), shell.folder / "build/mnist")

    assert '{"predictions":[7]}' in shell.run(f"{MNIST}python examples/mnist/build.py")


def test_a_bare_model_of_mnist_has_ten_predictions(shell: DocShell) -> None:
    shutil.copytree(sample("mnist"), shell.folder / "build/mnist")
    bare = {"build/mnist/mar": "build/mnist/scripted --service-name mnist", "/sample.json": "/sample-tensor.json"}

    said = shell.swapping(bare).run(f"{MNIST}python examples/mnist/build.py", f"{MNIST}curl -X POST")

    for found in re.findall(r'\{"predictions":\[\[.*?\]\]\}', said):
        (digits,) = json.loads(found)["predictions"]
        assert digits.index(max(digits)) == 7
    assert said.count("predictions") == 2


def test_a_transformer_of_mnist_takes_a_picture(shell: DocShell) -> None:
    shutil.copytree(sample("mnist"), shell.folder / "build/mnist")
    own = {"mar_runtime --model-dir": "mar_runtime --host 127.0.0.1 --model-dir"}
    own |= {"--predictor_host": f"--http_port {shell.swaps['8080']} --grpc_port 0 --predictor_host"}

    said = shell.swapping(own).run("examples/mnist_transformer/README.md: python examples/mnist/build.py")

    assert '{"predictions":[{"digit":7}]}' in said


def test_pictures_have_embeddings_and_tags(shell: DocShell) -> None:
    shutil.copytree(sample("resnet50", "--layers", LAYERS), shell.folder / "build/resnet50")
    own = {
        "python examples/resnet50/build.py build/resnet50": ":",  # as `sample` has done
        "--http-port 8080": f"--http-port {shell.swaps['8080']} &",
        "load.py build/picture.png": f"load.py build/picture.png --seconds 1 --address 127.0.0.1:{shell.swaps['8080']}",
    }
    blocks = ("python examples/resnet50/build.py", "host=", "python examples/resnet50/load.py")

    said = replace(shell, swaps={**own, **shell.swaps}).run(*(PICTURES + block for block in blocks))

    assert len(re.findall(r'"tag": ?"', said)) == 3 + 5 + 2, said
    assert "16 clients: " in said


def test_archives_are_asked_as_torchserves_users_do(shell: DocShell) -> None:
    made, port, management = shell.folder / "build/torchserve", shell.swaps["8080"], str(unbound_port())
    shutil.copytree(sample("torchserve"), made, ignore=shutil.ignore_patterns("image_classifier"))
    config = made / "archives/config/config.properties"
    config.write_text(config.read_text().replace("8081", management))
    own = {"python examples/torchserve/build.py build/torchserve": ":", "--http-port 8080": f"--http-port {port} &"}
    blocks = ("python examples/torchserve/build.py", "host='Host: archives", "curl -X POST")

    said = replace(shell, swaps={**own, **shell.swaps, "8081": management}).run(*(TORCHSERVE + one for one in blocks))

    assert '{"predictions":[4]}' in said, said
    assert '"advice": "Track it."' in said
    assert len(re.findall(r'"class \d+": ', said)) == 5


def test_a_folder_of_torchserve_is_served_and_asked_as_the_page_says(shell: DocShell) -> None:
    made, port = shell.folder / "build/torchserve", shell.swaps["8080"]
    shutil.copytree(sample("torchserve"), made, ignore=shutil.ignore_patterns("image_classifier"))
    own = {"python examples/torchserve/build.py build/torchserve": ":", "--http-port 8080": f"--http-port {port} &"}

    said = replace(shell, swaps={**own, **shell.swaps}).run(*(FROM_TORCHSERVE + one for one in ("python", "url=")))

    assert "model-store/densenet_161.mar" in said, said
    assert '"Healthy"' in said, said
    assert '"load":true' in said, said
    assert re.search(r"^http_requests_total\{.*/predictions", said, re.MULTILINE), said


def test_torchserve_alone_serves_the_sample(shell: DocShell) -> None:
    shutil.copytree(sample("bert"), shell.folder / "build/bert")
    config = shell.folder / "build/bert/config/config.properties"
    ports = [f"{name}_port={free_port()}" for name in ("grpc_inference", "grpc_management")]
    own = {"8081": str(free_port()), "8085": shell.swaps["8085"], "0.0.0.0": "127.0.0.1"}
    lines = [config.read_text(), f"metrics_address=http://127.0.0.1:{free_port()}", *ports, ""]
    config.write_text(replace(shell, swaps=own).moved("\n".join(lines)))
    (shell.folder / "java").mkdir()
    java = shell.knowing(JAVA_HOME=java_home(), JAVA_TOOL_OPTIONS=f"-Djava.io.tmpdir={shell.folder / 'java'}")

    said = java.swapping({"config/config.properties": "config/config.properties &"}).run(f"{BERT}cd build/bert")

    assert '{"predictions":[4]}' in "".join(said.split()), said


def test_make_serves_the_sample(shell: DocShell) -> None:
    folder, port = shell.folder, free_port()
    shutil.copytree(sample("bert"), folder / "build/bert")
    for name in ("Makefile", "constraints.txt", "uv.txt", "pyproject.toml", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / name).symlink_to(ROOT / ".venv" / name)
    (folder / ".venv/.ready").touch()
    ask = f"curl -T examples/bert/sample.json -X POST http://127.0.0.1:{port}/default/torchserve/v1/models/bert:predict"
    # `.ci/run` has `make demo` as a step of its own.
    until_asked = {"make run ": f"make run & {ask}; kill %1; wait %1 || true ", "make demo ": "true "}

    own = replace(shell.knowing(HTTP_PORT=str(port)), swaps=until_asked)
    said = own.run("docs/first-model.md: make setup", "docs/run-on-a-laptop.md: make run")

    assert '{"predictions":[4]}' in said, said
