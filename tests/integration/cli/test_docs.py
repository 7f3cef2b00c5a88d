"""Blocks of commands of the docs, run against one `isvc run` of the sample, of a new model, and of stand-ins."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from isvc.commands import main
from tests.support.apiserver import ApiServer
from tests.support.build_cache import ROOT, sample
from tests.support.doc_shell import DocShell, exchanges, find, plain
from tests.support.isvc_process import read_until, stop
from tests.support.local_services import write_yaml
from tests.support.model_folder import manifest, write_mar
from tests.support.namespace import Namespace, story_service
from tests.support.object_stores.proxy import proxy
from tests.support.object_stores.tls import issue
from tests.support.ports import free_port

pytestmark = pytest.mark.process
# What the pages name and the examples do not have.
MODELS = ("mnist", "densenet161", "llm", "stateful")
HANDLER = b"def handle(data, context):\n    return data and [len(data)] * len(data)\n"
RUN = "docs/run-on-a-laptop.md: $ isvc run examples/bert"
SHORTER = {"isvc bench ": "isvc bench --time=0.5 "}
HOST = "torchserve.default.example.com"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> DocShell:
    """In a checkout where the sample is built, and a new model lies beside it."""
    shell = DocShell.beside_examples(tmp_path_factory.mktemp("checkout"))
    (shell.folder / "build/bert").symlink_to(sample("bert"))
    (shell.folder / "sample.json").symlink_to(shell.folder / "examples/bert/sample.json")
    (shell.folder / "digit.json").symlink_to(shell.folder / "examples/mnist/sample.json")
    (shell.folder / "kitten.jpg").write_bytes(b"\xff\xd8")
    assert main(["new", "model", "largest", "--into", str(shell.folder)]) == 0
    return shell


@pytest.fixture(scope="module")
def readme(shell: DocShell) -> list[str]:
    """The blocks of commands of the new model's README that need no cluster."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (shell.folder / "largest/README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return [block for block in blocks if "kubectl" not in block]


@pytest.fixture(scope="module")
def trained(shell: DocShell, readme: list[str]) -> str:
    """What is printed when the new model is trained and tested, as its README says."""
    train = ["bash", "-euo", "pipefail", "-c", readme[0]]
    folder = shell.folder / "largest"
    return subprocess.run(train, cwd=folder, env=shell.environment, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def packed(shell: DocShell, trained: str) -> list[str]:
    """The lines with which docs/pack.md packs the new model, shown there and printed here."""
    assert trained
    (shell.folder / "largest/volume").mkdir()
    (pack,) = shell.at("largest").talk("docs/pack.md: $ isvc pack largest")
    return [pack.shown, pack.printed]


@pytest.fixture(scope="module")
def laptop(shell: DocShell, packed: list[str]) -> Iterator[tuple[DocShell, str]]:
    """A shell for which all services are served, and what the command of the page printed until they were."""
    assert packed
    ((command, _),) = exchanges(find(RUN).text)
    story = shell.folder / "examples/bert/inferenceservice.yaml"
    others = {**story_service(), "metadata": {"name": "others"}}
    others["spec"]["predictor"]["model"]["storageUri"] = "pvc://others"
    packed_largest = yaml.safe_load((shell.folder / "largest/inferenceservice.yaml").read_text())
    packed_largest["metadata"]["name"] = "packed"  # beside the one of the folder
    # The runtime without Java starts sooner.
    write_yaml(story, *(on_our_runtime(service) for service in (story_service(), others, packed_largest)))
    for name in MODELS:
        write_mar(shell.folder / f"others/{name}.mar", manifest(modelName=name), {"handler.py": HANDLER})
    port = free_port()
    claims = "--pvc others=others --pvc largest=largest/volume"
    run = command.replace("isvc run", f"exec isvc run largest/largest --http-port={port} {claims}")
    with (
        (shell.folder / "log").open("w") as log,
        subprocess.Popen(
            ["bash", "-c", run], cwd=shell.folder, env=shell.environment, text=True, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            said = read_until(process.stdout, "Ctrl-C stops it.")
            where = {"HOST": "others.default.example.com", "URL": f"http://127.0.0.1:{port}"}
            yield shell.knowing(**where).swapping({"127.0.0.1:8080": f"127.0.0.1:{port}"}), said
            stop(process)
        finally:
            process.kill()


def on_our_runtime(service: dict[str, object]) -> dict[str, object]:
    metadata = {**service["metadata"], "annotations": {"isvc-operator.io/runtime": "isvc-mar"}}  # type: ignore[dict-item]
    return {**service, "metadata": metadata}


def test_the_tests_of_a_new_model_pass(trained: str) -> None:
    assert "4 passed" in trained
    assert "PytestDeprecationWarning" not in trained


def test_a_new_model_is_run_and_packed_as_on_the_pages(readme: list[str]) -> None:
    """A test of the distributions runs the first five minutes; `packed` runs the other."""
    first, pack = ((ROOT / "docs" / page).read_text() for page in ("first-five-minutes.md", "pack.md"))
    train, run, packing = readme

    assert "train.py\n" in train
    assert run.replace(" largest", " largest/largest") in first
    assert packing.removeprefix("mkdir -p volume\n").replace(" --force", "") in pack


def test_what_is_packed_is_printed_and_looked_into(shell: DocShell, packed: list[str]) -> None:
    shown, printed = packed
    (inspect,) = shell.at("largest").talk("docs/pack.md: $ isvc inspect volume")

    assert printed == shown
    assert inspect.printed == inspect.shown


def test_the_archive_of_a_new_model_is_served_by_its_service(laptop: tuple[DocShell, str]) -> None:
    assert "packed is served" in plain(laptop[1])


def test_rendered_objects_are_what_a_cluster_gets(shell: DocShell) -> None:
    kinds = [body["kind"] for body in yaml.safe_load_all(shell.run("docs/run-on-a-laptop.md: isvc render"))]

    assert {"Deployment", "Service"} <= {*kinds}


def test_a_run_prints_the_addresses_of_the_page(laptop: tuple[DocShell, str]) -> None:
    ((_, shown),) = exchanges(find(RUN).text)
    printed = plain(laptop[1]).splitlines()
    there = plain(shown).splitlines()

    assert [line for line in there[there.index("torchserve is served") :] if line not in printed] == []


@pytest.mark.parametrize(
    ("block", "answers"),
    [
        ("docs/first-model.md: H='Host: torchserve", ['{"models":["bert"]}', '"name":"bert"', "# TYPE"]),
        ("docs/bench.md: isvc bench http://127.0.0.1:8080/default/", ['"failed": 0']),
        ("docs/protocols.md: curl -H \"Host: $HOST\" $URL/v1/models/mnist:predict", ['{"predictions":[1]}']),
        ("docs/protocols.md: curl -H \"Host: $HOST\" $URL/v2/models/mnist/infer", ['"outputs":[']),
        ("docs/protocols.md: curl -H \"Host: $HOST\" $URL/predictions/densenet", ["11"]),
        ("docs/protocols.md: curl --no-buffer", ["1"]),
    ],
)  # fmt: skip
def test_a_block_is_answered(laptop: tuple[DocShell, str], block: str, answers: list[str]) -> None:
    said = laptop[0].run(block)

    assert [answer for answer in answers if answer not in said] == [], said


@pytest.mark.parametrize(
    ("folder", "block"),
    [
        (".", "README.md: $ curl -X POST"),
        (".", "docs/batching.md: $ curl -si"),
        (".", "docs/predict.md: $ isvc predict torchserve -f"),
        (".", "docs/first-five-minutes.md: $ curl"),
    ],
)
def test_a_console_prints_what_the_page_shows(laptop: tuple[DocShell, str], folder: str, block: str) -> None:
    for exchange in laptop[0].at(folder).swapping(SHORTER).talk(block):
        # An ingress may send the names of headers in lower case.
        assert exchange.printed.lower().startswith(exchange.shown.lower()), exchange


def test_a_sequence_has_its_number_in_a_header(laptop: tuple[DocShell, str]) -> None:
    (sent,) = laptop[0].talk("docs/batching.md: $ curl -H 'ts_request")

    assert sent.printed == "1"


def test_http_and_https_of_an_ingress_have_the_same_response(laptop: tuple[DocShell, str], tmp_path: Path) -> None:
    shell, _ = laptop
    with proxy(shell.variables["URL"], certificate=issue(tmp_path)) as ingress:  # that of `isvc run` has no TLS
        said = shell.swapping({":8443": f":{ingress.port}"}).run("docs/first-model.md: curl -X POST")

    assert said == '{"predictions":[4]}' * 2


@pytest.fixture
def on_cluster(laptop: tuple[DocShell, str], apiserver: ApiServer, namespace: str) -> DocShell:
    """A shell whose kubeconfig has a namespace with the sample; its ingress is that of the run."""
    shell, _ = laptop
    team = Namespace(apiserver, namespace)
    team.apply(story_service())
    url = shell.variables["URL"].replace("127.0.0.1", HOST)
    team.patch_status("inferenceservice", "torchserve", {"url": url})
    backend = {"service": {"name": "torchserve-predictor", "port": {"number": 80}}}
    metadata, spec = {"name": "torchserve"}, {"defaultBackend": backend}
    team.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec})
    team.patch_status("ingress", "torchserve", {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}})
    return shell.of_cluster(apiserver, namespace)


def test_a_service_of_a_cluster_is_asked_and_measured(on_cluster: DocShell) -> None:
    (asked,) = on_cluster.talk("docs/predict.md: $ isvc predict torchserve -d")
    shorter = on_cluster.swapping(SHORTER)
    measured = shorter.run("docs/bench.md: isvc bench torchserve")

    first = on_cluster.swapping({".venv/bin/isvc": "isvc"}).run("docs/first-model.md: .venv/bin/isvc predict")

    assert asked.printed == asked.shown
    assert '{"predictions":[4]}' in first
    assert measured.count("POST") == 3
