"""Models from a Hugging Face hub: which commit and files, as whom, on bad lines; and what it costs the hub."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source
from storage_initializer.sources import Source, SourceFile
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import hub as hubs
from tests.support.object_stores.hub import TOKEN, Hub
from tests.support.object_stores.proxy import Action, Answer, Request, on

PART = 16 << 20
LAYOUT = {
    ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": random.Random(0).randbytes(3 << 20),
    "tokenizer.json": b"{}" * 400,
    "onnx/model.onnx": random.Random(1).randbytes(5000),
    "1_Pooling/Modell für 50%.json": b"{}",
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hubs.running() as server:
        yield server


def asked(hub: Hub) -> list[str]:
    """The paths of the requests for files, to the hub and to its store."""
    requests = [*hub.front.requests, *hub.store.requests]
    return [f"{request.method} {request.target}" for request in requests if "/api/" not in request.target]


def test_a_model_arrives_as_it_is(initialize: Initialize, hub: Hub, models: Path) -> None:
    commit = hub.put("org/bert", LAYOUT)

    outcome = initialize("hf://org/bert", models, HF_ENDPOINT=hub.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == LAYOUT
    assert outcome.log[:2] == [
        f"hf://org/bert → {models}",
        f"without a token, endpoint {hub.url}, commit {commit}",
    ]
    assert outcome.log[-1].startswith("done: 6 files, 3.0 MiB in ")


def test_the_hubs_own_library_downloads_the_same(hub: Hub, tmp_path: Path) -> None:
    """So what the initializer reads is a hub."""
    hub.put("org/bert", LAYOUT)
    program = "import huggingface_hub, sys; huggingface_hub.snapshot_download('org/bert', local_dir=sys.argv[1])"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}

    subprocess.run([sys.executable, "-c", program, str(tmp_path / "there")], env=environment, check=True, timeout=120)

    there = read_tree(tmp_path / "there")
    assert {name: content for name, content in there.items() if not name.startswith(".cache/")} == LAYOUT


@pytest.mark.parametrize("by", ["tag", "slashes", "commit"])
def test_a_revision_is_one_commit(initialize: Initialize, hub: Hub, models: Path, by: str) -> None:
    commit = hub.put("org/bert", {"config.json": b"1"})
    revision = {"tag": "v1", "slashes": "refs/pr/1", "commit": commit}[by]
    hub.tag("org/bert", revision, commit)
    hub.put("org/bert", {"config.json": b"2"})

    assert initialize(f"hf://org/bert:{revision}", models, HF_ENDPOINT=hub.url).exit_code == 0
    assert read_tree(models) == {"config.json": b"1"}


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ({"STORAGE_ALLOW_PATTERNS": '["*.json"]'}, {"config.json", "tokenizer.json", "1_Pooling/Modell für 50%.json"}),
        ({"STORAGE_ALLOW_PATTERNS": "onnx/,config.json"}, {"config.json", "onnx/model.onnx"}),
        ({"STORAGE_IGNORE_PATTERNS": "*.safetensors,.*,*/*"}, {"config.json", "tokenizer.json"}),
    ],
)
def test_patterns_choose_what_is_downloaded(
    initialize: Initialize, hub: Hub, models: Path, patterns: dict[str, str], names: set[str]
) -> None:
    hub.put("org/bert", LAYOUT)

    outcome = initialize("hf://org/bert", models, HF_ENDPOINT=hub.url, **patterns)

    assert (outcome.exit_code, set(read_tree(models))) == (0, names)
    assert len([request for request in asked(hub) if "/resolve/" in request]) == len(names)


# --- as whom ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["private", "gated"])
def test_the_token_reaches_the_hub_and_nobody_else(initialize: Initialize, hub: Hub, models: Path, kind: str) -> None:
    hub.put("org/bert", LAYOUT, **{kind: True})

    outcome = initialize("hf://org/bert", models, HF_ENDPOINT=hub.url, HF_TOKEN=f"{TOKEN}\n")

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == LAYOUT
    assert outcome.log[1].startswith(f"with the token in HF_TOKEN, endpoint {hub.url}, commit ")
    assert TOKEN not in "\n".join(outcome.log)
    assert {request.headers.get("authorization") for request in hub.front.requests} == {f"Bearer {TOKEN}"}
    assert hub.store.requests
    assert all("authorization" not in request.headers for request in hub.store.requests)


REFUSALS = {
    "no such model": (
        "hf://org/bret", {}, 5,
        "{url} shows no model org/bret to a request without a token; correct its name, or, if it is private, put a "
        "token that may read it into a secret with the key HF_TOKEN",
    ),
    "private": (
        "hf://org/private", {}, 5,
        "{url} shows no model org/private to a request without a token; correct its name, or, if it is private, put a "
        "token that may read it into a secret with the key HF_TOKEN",
    ),
    "gated": (
        "hf://org/gated", {}, 7,
        "config.json may not be read without a token (401); accept the terms at {url}/org/gated, and put a token of "
        "that account into a secret with the key HF_TOKEN",
    ),
    "a wrong token": (
        "hf://org/bert", {"HF_TOKEN": "hf_wrong"}, 7,
        "org/bert may not be read with the token in HF_TOKEN (401: Invalid credentials in Authorization header); put a "
        "valid token that may read it into a secret with the key HF_TOKEN",
    ),
    "no token at all": (
        "hf://org/bert", {"HF_TOKEN": "the token of mine"}, 2,
        "HF_TOKEN has characters that no token has; store the token again as it was issued",
    ),
    "no such revision": (
        "hf://org/bert:mian", {}, 5, "org/bert has no revision mian; did you mean main?"),
    "no file": ("hf://org/empty", {}, 6, "there are no files in it; upload the model first"),
    "a folder": (
        "hf://org/bert/onnx", {}, 2,
        "it is not a model of a hub; write hf://OWNER/MODEL or hf://OWNER/MODEL:REVISION, and choose its files by "
        "patterns: STORAGE_ALLOW_PATTERNS, or the annotation storage.isvc-operator.io/allow-patterns",
    ),
    "an invalid name": (
        "hf://org/be..rt", {}, 2,
        "it is not a model of a hub, whose names have letters, digits, '.', '_' and '-', but no '..'; write "
        "hf://OWNER/MODEL",
    ),
    "a path out of the folder": (
        "hf://org/escaping", {}, 8,
        "the object '../../etc/passwd' cannot be a file below the destination; rename it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("uri", "environment", "code", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_why_and_what_to_do(
    initialize: Initialize,
    hub: Hub,
    models: Path,
    uri: str,
    environment: dict[str, str],
    code: int,
    reason: str,
) -> None:
    files = {"config.json": b"{}"}
    hub.put("org/bert", files)
    hub.put("org/private", files, private=True)
    hub.put("org/gated", files, gated=True)
    hub.put("org/empty", {})
    hub.put("org/escaping", {"../../etc/passwd": b"root"})

    outcome = initialize(uri, models, HF_ENDPOINT=hub.url, **environment)

    assert (outcome.exit_code, outcome.reason) == (code, f"{uri}: {reason.format(url=hub.url)}")
    assert not models.exists() or list(models.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [Answer(200, b"<html>"), Answer(200, b"[]"), Answer(200, b'{"sha": "main", "siblings": []}'),
     Answer(200, b'{"id": "org/bert", "sha": "%s", "siblings": [{"name": "x"}]}' % (b"a" * 40)),
     Answer(404), Answer(418), Answer(302, b"", {"Location": "ftp://elsewhere"})],
    ids=["a page", "a list", "no commit", "no names", "404", "418", "a redirect to nowhere"],
)  # fmt: skip
def test_what_is_no_hub_is_named(initialize: Initialize, models: Path, answer: Answer) -> None:
    with hubs.running(lambda _: answer) as server:
        outcome = initialize("hf://org/bert", models, HF_ENDPOINT=server.url)

    assert (outcome.exit_code, server.url in outcome.reason) == (17, True)


def test_an_endpoint_that_is_no_url_is_refused(initialize: Initialize, models: Path) -> None:
    outcome = initialize("hf://org/bert", models, HF_ENDPOINT="hub.example.com")

    assert (outcome.exit_code, outcome.reason) == (
        2,
        "hf://org/bert: HF_ENDPOINT is 'hub.example.com', which is not a URL; "
        "write the hub's, such as https://huggingface.co",
    )


# --- on bad lines ----------------------------------------------------------------------------------------


def is_stored(_: Request) -> bool:
    return True


@pytest.mark.parametrize("fault", [Answer(429), Answer(500), Answer(503)], ids=["429", "500", "503"])
def test_what_may_pass_is_tried_again(initialize: Initialize, models: Path, fault: Action) -> None:
    with hubs.running(on(fault, {1, 3}, of=is_stored), on(fault, {1}, of=is_stored)) as server:
        server.put("org/bert", LAYOUT)
        outcome = initialize("hf://org/bert", models, HF_ENDPOINT=server.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == LAYOUT


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_is_not_the_listed_one_is_refused(initialize: Initialize, models: Path, name: str) -> None:
    """A small file has Git's checksum, a large one its SHA-256."""
    damaged = bytes([LAYOUT[name][0] ^ 1]) + LAYOUT[name][1:]

    def damage(request: Request) -> Answer | None:
        wanted = name in request.target or hashlib.sha256(LAYOUT[name]).hexdigest() in request.target
        return Answer(200, damaged) if wanted and "X-Linked" not in request.headers else None

    with hubs.running(damage if name == "config.json" else hubs.harmless, damage) as server:
        server.put("org/bert", LAYOUT)
        outcome = initialize("hf://org/bert", models, HF_ENDPOINT=server.url)

    assert outcome.exit_code == 12
    assert outcome.reason.startswith(f"hf://org/bert: {name} has the ")
    assert list(models.iterdir()) == []


def test_the_hub_is_asked_once_for_a_large_file(initialize: Initialize, hub: Hub, models: Path) -> None:
    """Its parts come from where the first request was redirected to."""
    hub.put("org/bert", {"model.safetensors": bytes(PART) + b"the end"})
    outcome = initialize("hf://org/bert", models, HF_ENDPOINT=hub.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert sum("/resolve/" in request for request in asked(hub)) <= 2
    assert len(hub.store.requests) == 2


def test_an_address_that_has_expired_is_asked_for_again(hub: Hub) -> None:
    content = random.Random(2).randbytes(3000)
    hub.put("org/bert", {"model.safetensors": content})
    plan = make_plan(["hf://org/bert", "/mnt/models"], {"HF_ENDPOINT": hub.url})
    source = open_source(plan.transfers[0], plan)
    (file,) = source.list_files()
    parts = [read(source, file, 0, 1000), read(source, file, 1000, 2000)]
    hub.expire_signatures()
    parts.append(read(source, file, 2000, 3000))

    assert b"".join(parts) == content
    assert (len(hub.front.requests), len(hub.store.requests)) == (3, 4)


def read(source: Source, file: SourceFile, start: int, stop: int) -> bytes:
    buffer = bytearray(stop - start)
    with source.open(file, start, stop) as content:
        assert content.readinto(memoryview(buffer)) == len(buffer)
    return bytes(buffer)


def test_a_hub_that_reports_no_sizes_is_read_all_the_same(initialize: Initialize, models: Path) -> None:
    """As some mirrors do: they list names only."""

    def without_sizes(request: Request) -> Answer | None:
        plain = Request(request.method, request.target.partition("?")[0], request.headers, b"")
        return server.answer(plain) if "/api/" in request.target else None

    with hubs.running(without_sizes) as server:
        server.put("org/bert", LAYOUT)
        outcome = initialize("hf://org/bert", models, HF_ENDPOINT=server.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == LAYOUT


# --- beside it -------------------------------------------------------------------------------------------


def test_the_next_commit_takes_what_is_the_same_from_the_nodes_cache(
    initialize: Initialize, hub: Hub, tmp_path: Path
) -> None:
    environment = {"STORAGE_CACHE": str(tmp_path / "cache"), "STORAGE_CACHE_SIZE": str(64 << 20)}
    hub.put("org/bert", LAYOUT)
    assert initialize("hf://org/bert", tmp_path / "first", HF_ENDPOINT=hub.url, **environment).exit_code == 0
    files = len(asked(hub))
    hub.put("org/bert", dict(reversed(LAYOUT.items())))

    again = initialize("hf://org/bert", tmp_path / "second", HF_ENDPOINT=hub.url, **environment)

    assert (again.exit_code, again.log[-2]) == (0, "from the node's cache: 6 linked")
    assert read_tree(tmp_path / "second") == LAYOUT
    assert len(asked(hub)) == files


def test_nothing_is_written_beside_the_model(hub: Hub, tmp_path: Path) -> None:
    """As in a container whose root file system is read-only: there is no home."""
    hub.put("org/bert", LAYOUT)
    home = tmp_path / "home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HF_ENDPOINT": hub.url, "PYTHONPATH": str(Path.cwd())}

    subprocess.run(
        [sys.executable, "-m", "storage_initializer", "hf://org/bert", str(tmp_path / "models")],
        env=environment, check=True, timeout=120, capture_output=True,
    )  # fmt: skip

    assert read_tree(tmp_path / "models") == LAYOUT
    assert [path.name for path in tmp_path.iterdir()] == ["models"]
