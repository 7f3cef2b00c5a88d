"""The users' stories on the cluster and by `isvc run`, from the same files: the same answers, the same status.

The comparison makes the table of docs/stories.md. `WRITE_STORIES=1` rewrites the page.
"""

from __future__ import annotations

import html
import http.client
import json
import os
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.resnet50 import volume
from tests.support.cluster import HTTP
from tests.support.isvc_process import drained, new_sandbox, read_until
from tests.support.kept import sample
from tests.support.namespace import Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
EXAMPLES, PAGE = ROOT / "examples", ROOT / "docs" / "stories.md"
READY_WITHIN = 300.0  # seconds, for all of them
TIMES = ("lastTransitionTime", "transitionTime")
TRANSFORMER = "localhost/isvc-operator/mnist-transformer:0.2.0"
PICTURE = '--picture\r\nContent-Disposition: form-data; name="data"; filename="p.png"\r\n\r\n'


@dataclass(frozen=True)
class Ask:
    """A request of a story: ``body`` is a file, or bytes."""

    path: str
    body: Path | bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body.read_bytes() if isinstance(self.body, Path) else self.body


@dataclass(frozen=True)
class Story:
    """Files that people apply, the service in them, and what they ask it."""

    title: str
    file: Path
    name: str
    asks: Sequence[Ask]


@dataclass(frozen=True)
class Outcome:
    """What a story gave: the answers, and the status without times."""

    answers: list[tuple[int, Any]]
    status: Mapping[str, Any]


def stories(images: Path, picture: bytes) -> list[Story]:
    samples = json.loads((images / "samples.json").read_text())
    seven = EXAMPLES / "mnist" / "sample.json"
    tensor = EXAMPLES / "mnist" / "sample-tensor.json"

    def instances(model: str, image: str) -> Ask:
        return Ask(f"/v1/models/{model}:predict", json.dumps({"instances": [{"data": image}]}).encode())

    cookie = {"Cookie": "authservice_session=abc"}
    form = {"Content-Type": "multipart/form-data; boundary=picture"}
    upload = PICTURE.encode() + picture + b"\r\n--picture--\r\n"
    mnist = EXAMPLES / "mnist"
    return [
        Story("BERT from a claim", EXAMPLES / "bert" / "inferenceservice.yaml", "torchserve",
              [Ask("/v1/models/bert:predict", EXAMPLES / "bert" / "sample.json", cookie)]),
        Story("the old field names, two archives", Path(__file__).parent / "both_runtimes.yaml", "images",
              [instances("mnist", samples["mnist"][0]["image"]),
               instances("densenet161", samples["densenet161"]["image"])]),
        Story("a custom transformer", EXAMPLES / "mnist_transformer" / "inferenceservice.yaml", "mnist-pictures",
              [Ask("/v1/models/mnist:predict", EXAMPLES / "mnist_transformer" / "sample.json")]),
        Story("a batching service of two models", EXAMPLES / "resnet50" / "inferenceservice.yaml", "pictures",
              [Ask("/predictions/tags", upload, form), Ask("/predictions/embedding", upload, form)]),
        Story("MNIST from its state dict", mnist / "inferenceservice-mar.yaml", "mnist-mar",
              [Ask("/v1/models/mnist:predict", seven)]),
        Story("MNIST as scripted TorchScript", mnist / "inferenceservice-torchscript.yaml", "mnist-torchscript",
              [Ask("/v1/models/mnist-torchscript:predict", tensor)]),
        Story("MNIST as traced TorchScript", mnist / "inferenceservice-traced.yaml", "mnist-traced",
              [Ask("/v1/models/mnist-traced:predict", tensor)]),
        Story("MNIST as ONNX", mnist / "inferenceservice-onnx.yaml", "mnist-onnx",
              [Ask("/v1/models/mnist-onnx:predict", tensor)]),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def told(images: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Story]:
    picture = tmp_path_factory.mktemp("picture") / "picture.png"
    os.spawnl(os.P_WAIT, sys.executable, sys.executable, str(EXAMPLES / "resnet50" / "sample.py"), str(picture))
    return stories(images, picture.read_bytes())


@pytest.fixture(scope="module")
def claims(bert: Path, images: Path) -> Mapping[str, Path]:
    return {"leeway": bert, "mnist": sample("mnist"), "images": images / "image_classifier", "pictures": volume()}


@pytest.fixture(scope="module")
def outcomes(
    namespace: Namespace, told: list[Story], claims: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Outcome, Outcome]]:
    """For each story what the cluster gave, and what `isvc run` gave after it."""
    there = on_the_cluster(namespace, told, claims)
    here = on_this_machine(namespace.name, told, claims, tmp_path_factory.mktemp("run"))
    return list(zip(there, here, strict=True))


def on_the_cluster(namespace: Namespace, told: list[Story], claims: Mapping[str, Path]) -> list[Outcome]:
    with ExitStack() as stack:
        for claim, folder in claims.items():
            stack.enter_context(Volume(namespace, claim).filled_from(folder))
        for story in told:
            namespace.kubectl("apply", "--filename", str(story.file))
        found = []
        for story in told:
            namespace.wait_for_condition("Ready", "True", service=story.name, within=READY_WITHIN)
            host = f"{story.name}.{namespace.name}.example.com"
            eventually(lambda host=host: answer(HTTP, host, Ask("/v2/health/ready", b""))[0] == 200, "there is a route")
            service = namespace.find("inferenceservice", story.name) or {}
            found.append(Outcome([answer(HTTP, host, ask) for ask in story.asks], without_times(service["status"])))
            namespace.kubectl("delete", "isvc", story.name, "--wait=false")
        return found


def on_this_machine(place: str, told: list[Story], claims: Mapping[str, Path], folder: Path) -> list[Outcome]:
    """What `isvc run` does with the files, and with the namespace of the cluster."""
    file = folder / "stories.yaml"
    file.write_text("\n---\n".join(story.file.read_text() for story in told))
    transformer = f"{sys.executable} {EXAMPLES / 'mnist_transformer' / 'transformer.py'}"
    arguments = [file, f"--namespace={place}", f"--image={TRANSFORMER}={transformer}"]
    arguments += [f"--pvc={claim}={path}" for claim, path in claims.items()]
    with new_sandbox(folder) as sandbox, sandbox.running(*arguments) as process, drained(process):
        try:
            address = re.search(r"http\S+", read_until(process.stdout, "The dashboard is at"))
            assert address
            page_of_run = PageOfRun(address[0])
            for story in told:
                eventually(
                    lambda story=story: page_of_run.is_ready(place, story.name), f"{story.name} is ready", READY_WITHIN
                )
            url = f"http://127.0.0.1:{sandbox.port}"
            return [
                Outcome(
                    [answer(url, f"{story.name}.{place}.example.com", ask) for ask in story.asks],
                    without_times(page_of_run.status(place, story.name)),
                )
                for story in told
            ]
        finally:
            process.terminate()
            process.wait(READY_WITHIN)


class PageOfRun:
    """The dashboard of a run, whose page of the YAML has the status."""

    def __init__(self, address: str) -> None:
        self._root = address.partition("/?")[0]
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self._opener.open(address).close()

    def status(self, namespace: str, name: str) -> Mapping[str, Any]:
        """The status of a service; empty if it has none yet."""
        with self._opener.open(f"{self._root}/services/{namespace}/{name}/yaml") as response:
            found = re.search(r'id="status"[^>]*>(.*?)</pre>', response.read().decode(), re.DOTALL)
        return yaml.safe_load(html.unescape(found[1])) if found else {}

    def is_ready(self, namespace: str, name: str) -> bool:
        """Whether the condition Ready is True."""
        conditions = self.status(namespace, name).get("conditions", [])
        return any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)


def answer(url: str, host: str, ask: Ask) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)) as connection:
        connection.request(
            "POST" if ask.content else "GET", ask.path, ask.content or None, {"Host": host, **ask.headers}
        )
        response = connection.getresponse()
        text = response.read().decode()
        return response.status, json.loads(text) if text.startswith(("{", "[")) else text


def without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_each_story_gets_the_same_answers_here_and_there(
    told: list[Story], outcomes: list[tuple[Outcome, Outcome]]
) -> None:
    for story, (there, here) in zip(told, outcomes, strict=True):
        assert all(status == 200 for status, _ in there.answers), story.title
        assert [rounded(item) for item in here.answers] == [rounded(item) for item in there.answers], story.title


def rounded(value: Any) -> Any:
    """Numbers that differ in their last digits are the same: sums depend on the number of threads."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def test_each_story_has_the_same_status_here_and_there(
    told: list[Story], outcomes: list[tuple[Outcome, Outcome]]
) -> None:
    for story, (there, here) in zip(told, outcomes, strict=True):
        assert here.status == there.status, story.title


def test_the_page_has_what_was_found(told: list[Story], outcomes: list[tuple[Outcome, Outcome]]) -> None:
    text = page(told, [there for there, _ in outcomes])
    if os.environ.get("WRITE_STORIES"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run: WRITE_STORIES=1 make e2e ARGS='-k test_stories'"


def page(told: list[Story], found: list[Outcome]) -> str:
    lines = [
        "# Stories",
        "",
        "<!-- Written by tests/e2e/test_stories.py. Do not edit. -->",
        "",
        "What people do with `isvc-operator`, each from the file in this repository, unchanged. The end-to-end tests",
        "apply the files to a cluster, and run them with `isvc run`. Answers and statuses have to be equal, but for",
        "times.",
        "",
        "| story | file | request | answer | conditions |",
        "|---|---|---|---|---|",
    ]
    for story, outcome in zip(told, found, strict=True):
        file = story.file.relative_to(ROOT)
        asked = "<br>".join(f"`{ask.path}`" for ask in story.asks)
        answers = "<br>".join(f"{status} `{shortened(body)}`" for status, body in outcome.answers)
        conditions = ", ".join(sorted(f"`{item['type']}`: {item['status']}" for item in outcome.status["conditions"]))
        lines.append(f"| {story.title} | [{story.name}](../{file}) | {asked} | {answers} | {conditions} |")
    fields = sorted({name for outcome in found for name in outcome.status})
    lines += ["", "Fields of the status that were compared: " + ", ".join(f"`{name}`" for name in fields) + ".", ""]
    return "\n".join(lines)


def shortened(body: Any) -> str:
    """An answer for the page; digits of numbers, and what is ordered by them, differ between processors."""
    if "." not in json.dumps(body):
        return json.dumps(body)
    return "[…]" if isinstance(body, list) else "{" + ", ".join(f'"{name}": […]' for name in body) + "}"
