"""The users' stories on the cluster and by `isvc run`, from the same files: the same answers, the same status.

The comparison makes the table of docs/stories.md. `WRITE_STORIES=1` rewrites the page.
"""

from __future__ import annotations

import contextlib
import functools
import html
import json
import os
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stories.laptop import management_of, served, volumes
from tests.stories.stories import STORIES
from tests.stories.story import ROOT, Ask, Bucket, Place, Service, Story
from tests.support.cluster import HTTP, HTTPS_PORT, Answer, RealCluster, rounded
from tests.support.forwarding import address_seen_from, forwarded, node_address, port_forwarded
from tests.support.namespace import Namespace
from tests.support.object_stores import fake_gcs
from tests.support.ports import free_port
from tests.support.volumes import Volume
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

PAGE = ROOT / "docs" / "stories.md"
READY_WITHIN = 300.0  # seconds
READY = Ask('curl -H "Host: $HOST" $URL/v2/health/ready')
TIMES = ("lastTransitionTime", "transitionTime")


@dataclass(frozen=True)
class Outcome:
    """What a service gave: an answer to each command, None where it is not possible, and the status without times."""

    answers: list[Answer | None]
    status: Mapping[str, Any]


Outcomes = list[tuple[Outcome, Outcome]]  # of each service what the cluster gave, and what `isvc run` gave after it


@pytest.fixture(scope="module")
def play(
    cluster: RealCluster, namespace: Namespace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Story], Outcomes]]:
    """Serves a story there and here, once."""
    with ExitStack() as stack:
        claims: dict[str, Volume] = {}  # some stories share one

        @functools.cache
        def played(story: Story) -> Outcomes:
            for claim in story.claims.keys() - claims.keys():
                volume = Volume(namespace, claim).filled_from(story.claims[claim]())
                claims[claim] = stack.enter_context(volume)
            more = []
            if story.bucket:
                emulator = tmp_path_factory.mktemp("bucket")
                more = [stack.enter_context(filled(story.bucket, emulator, cluster))]
            there = [on_the_cluster(cluster, namespace, story, service) for service in story.services]
            return list(zip(there, on_this_machine(namespace.name, story, *more), strict=True))

        yield played


@contextlib.contextmanager
def filled(bucket: Bucket, home: Path, cluster: RealCluster) -> Iterator[Path]:
    """A server of Google's protocol with the bucket; the file by which who has such a server tells of it."""
    content = bucket.content()
    address = address_seen_from(node_address(cluster))
    with (
        fake_gcs.running(home, public_host=address) as store,
        forwarded(address, int(store.url.rpartition(":")[2])) as port,
    ):
        store.create_bucket(bucket.name)
        files = {str(path.relative_to(content)): path.read_bytes() for path in content.rglob("*.*")}
        store.put_tree(bucket.name, bucket.path, files)
        env = [{"name": "STORAGE_EMULATOR_HOST", "value": f"http://{address}:{port}"}]
        container = {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ClusterStorageContainer",
            "metadata": {"name": bucket.name},
            "spec": {
                "container": {"name": "storage-initializer", "env": env},
                "supportedUriFormats": [{"prefix": f"gs://{bucket.name}/"}],
            },
        }
        file = home / "emulator.yaml"
        file.write_text(yaml.safe_dump(container))
        cluster.kubectl("apply", "--filename", str(file))
        yield file
        cluster.kubectl("delete", "--filename", str(file))


def on_the_cluster(cluster: RealCluster, namespace: Namespace, story: Story, service: Service) -> Outcome:
    namespace.kubectl("apply", "--filename", str(service.file))
    namespace.wait_for_condition("Ready", "True", service=service.name, within=READY_WITHIN)
    place = Place(f"{service.name}.{namespace.name}.example.com", HTTP, HTTPS_PORT)
    eventually(lambda: READY.ask(place, ROOT).status == 200, "there is a route")
    status = (namespace.find("inferenceservice", service.name) or {})["status"]
    deployment = f"deployment/{service.name}-predictor"
    management = management_of(namespace.kubectl("logs", deployment, "--container=kserve-container"))
    with ExitStack() as stack:
        if management:
            port = int(management.rpartition(":")[2])
            management = f"http://{stack.enter_context(port_forwarded(cluster, namespace.name, deployment, port))}"
        answers = answers_of(story, service, replace(place, management=management))
    namespace.kubectl("delete", "isvc", service.name, "--wait=false")
    return Outcome(answers, without_times(status))


def on_this_machine(namespace: str, story: Story, *more: Path) -> list[Outcome]:
    """What `isvc run` does with the files, and with the namespace of the cluster."""
    port = free_port()
    with served(story, f"--namespace={namespace}", f"--http-port={port}", *volumes(story), beside=more) as laptop:
        page = PageOfRun(laptop.announced)
        place = Place("", f"http://127.0.0.1:{port}", management=management_of("".join(laptop.log)))
        return [
            Outcome(
                answers_of(story, service, replace(place, host=f"{service.name}.{namespace}.example.com")),
                without_times(page.status(namespace, service.name)),
            )
            for service in story.services
        ]


def answers_of(story: Story, service: Service, place: Place) -> list[Answer | None]:
    folder = story.folder()
    return [ask.ask(place, folder) if ask.is_possible(place) else None for ask in service.asks]


class PageOfRun:
    """The dashboard of a run, whose page of the YAML has the status."""

    def __init__(self, announced: str) -> None:
        address = re.search(r"The dashboard is at (\S+)", announced)
        assert address, announced
        self._root = address[1].partition("/?")[0]
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self._opener.open(address[1]).close()

    def status(self, namespace: str, name: str) -> Any:
        with self._opener.open(f"{self._root}/services/{namespace}/{name}/yaml") as response:
            found = re.search(r'id="status"[^>]*>(.*?)</pre>', response.read().decode(), re.DOTALL)
        assert found, f"{name} has no status"
        return yaml.safe_load(html.unescape(re.sub(r"<[^>]+>", "", found[1])))


def without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.number)
def test_a_story_has_the_same_answers_and_the_same_status_here_and_there(
    play: Callable[[Story], Outcomes], story: Story
) -> None:
    for service, (there, here) in zip(story.services, play(story), strict=True):
        for ask, one, other in zip(service.asks, there.answers, here.answers, strict=True):
            assert one, f"{ask.command} is not possible on a cluster"
            assert ask.is_answered(one), (ask.command, one)
            if other:
                assert ask.is_answered(other), (ask.command, other)
                assert ask.words or rounded(document(one)) == rounded(document(other)), ask.command
        assert here.status == there.status, service.title


def document(answer: Answer) -> Any:
    """Its JSON; a text that is none as it stands."""
    with contextlib.suppress(ValueError):
        return answer.json
    return answer.text


def test_the_page_has_what_was_found(play: Callable[[Story], Outcomes]) -> None:
    text = page([(story, service, there) for story in STORIES for service, there in results(story, play)])
    if os.environ.get("WRITE_STORIES"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run: WRITE_STORIES=1 make e2e ARGS='-k test_stories'"


def results(story: Story, play: Callable[[Story], Outcomes]) -> Iterator[tuple[Service, Outcome]]:
    return ((service, there) for service, (there, _) in zip(story.services, play(story), strict=True))


def page(found: list[tuple[Story, Service, Outcome]]) -> str:
    lines = [
        "# Stories",
        "",
        "<!-- Written by tests/e2e/cluster/test_stories.py. Do not edit. -->",
        "",
        "Each story is a typical use of `isvc-operator`, with an unchanged file of this repository. The end-to-end",
        "tests apply the files to a cluster, run them with `isvc run`, and run the commands on both. Except for times,",
        "responses and statuses must be equal. In the root of a clone, `.venv/bin/python -m tests.stories S1` runs the",
        "first story on this machine.",
        "",
        "`$URL` is the ingress, and `$HOST` is the service's host. `$MANAGEMENT` is TorchServe's management API, which",
        "listens on loopback only.",
        "",
        "| | story | file | command | answer | conditions |",
        "|---|---|---|---|---|---|",
    ]
    for story, service, outcome in found:
        file = service.file.relative_to(ROOT)
        asked = "<br>".join(f"`{ask.command}`" for ask in service.asks)
        answers = "<br>".join(f"`{shortened(*pair)}`" for pair in zip(service.asks, outcome.answers, strict=True))
        conditions = ", ".join(sorted(f"`{item['type']}`: {item['status']}" for item in outcome.status["conditions"]))
        row = (story.number, service.title, f"[{service.name}](../{file})", asked, answers, conditions)
        lines.append(f"| {' | '.join(row)} |")
    fields = sorted({name for *_, outcome in found for name in outcome.status})
    lines += ["", "Fields of the status that were compared: " + ", ".join(f"`{name}`" for name in fields) + ".", ""]
    return "\n".join(lines)


def shortened(ask: Ask, answer: Answer | None) -> str:
    """An answer for the page; digits of numbers, and what is ordered by them, differ between processors."""
    if ask.words or answer is None:
        return f"… {ask.words} …"
    body = document(answer)
    if "." not in json.dumps(body) or ask.answer:
        return json.dumps(body)
    return "[…]" if isinstance(body, list) else "{" + ", ".join(f'"{name}": […]' for name in body) + "}"
