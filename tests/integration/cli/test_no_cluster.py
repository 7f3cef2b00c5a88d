"""What commands say where no Kubernetes answers: one line that names the server or the file and what to do."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isvc.commands import main
from isvc.source import server as server_module
from tests.support.local_services import service, write_yaml
from tests.support.ports import free_port
from tests.support.scripted_server import Behaviour, never, scripted

Captured = pytest.CaptureFixture[str]

COMMANDS = (
    ("status",),
    ("status", "-w"),
    ("status", "bert", "-o", "json"),
    ("logs", "bert"),
    ("logs", "-f", "bert"),
    ("diagnose", "bert"),
    ("predict", "bert", "-d", '{"instances": [1]}'),
    ("bench", "bert"),
    ("diff", "service.yaml"),
    ("dashboard",),
    ("migrate", "plan"),
    ("migrate", "apply"),
    ("migrate", "back"),
    ("doctor",),
)
FIX = "; look at the kubeconfig and its context"
NO_VERSION = "its response names no version: this is not an API server"


def answer(status: str, body: str, kind: str = "application/json") -> Behaviour:
    text = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()

    async def behave(visitor: object) -> None:
        while True:
            await visitor.request()  # type: ignore[attr-defined]
            await visitor.say(text)  # type: ignore[attr-defined]

    return behave


SERVERS: dict[str, tuple[Behaviour | None, str]] = {
    "refused": (None, "no response from the API server: Cannot connect to host "),
    "silent": (never, "it accepts connections and says nothing for 0.2 s"),
    "a page": (
        answer("200 OK", "<html>Log in</html>", "text/html"),
        "the response of the API server is not an object: <html>Log in</html>",
    ),
    "404": (answer("404 Not Found", "404 page not found"), "it does not know /version: this is not an API server"),
    "another object": (answer("200 OK", '{"status": "ok"}'), NO_VERSION),
    "a list": (answer("200 OK", "[]"), "the response of the API server is not an object: []"),
    "broken JSON": (answer("200 OK", '{"kind": }'), "its response is not JSON: this is not an API server"),
    "a proxy's refusal": (answer("403 Forbidden", "Access denied"), "Access denied"),
    "wrong credentials": (answer("401 Unauthorized", '{"kind": "Status", "message": "Unauthorized"}'), "Unauthorized"),
}


@contextmanager
def serving(behaviour: Behaviour | None) -> Iterator[str]:
    """The address of a server that behaves so, or of none, beside this thread: commands have a loop of their own."""
    if behaviour is None:
        yield f"http://127.0.0.1:{free_port()}"
        return
    started, addresses = threading.Event(), []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with scripted(behaviour) as found:
            addresses.append(f"http://{found.host}")
            started.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "config")
    write_yaml(tmp_path / "service.yaml", service())
    return tmp_path


@pytest.mark.parametrize(("behaviour", "why"), SERVERS.values(), ids=SERVERS)
def test_a_server_that_is_no_api_server_is_named_in_one_line(
    folder: Path, behaviour: Behaviour | None, why: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    if behaviour is never:
        monkeypatch.setattr(server_module, "FIRST_RESPONSE_SECONDS", 0.2)
    with serving(behaviour) as address:
        (folder / "config").write_text(kubeconfig(address))
        said = {}
        for command in COMMANDS:
            code = main(command)
            out, err = capsys.readouterr()
            said[command] = (code, f"{out}{err}".removeprefix("isvc: ").removeprefix("problem cluster: "))

    wrong = {
        command: found
        for command, found in said.items()
        if not (
            found[1].startswith(f"{address}: {why}") and found[1].endswith(f"{FIX}\n") and found[1].count("\n") == 1
        )
    }
    assert wrong == {}
    # As with diff, 1 is that something differs.
    assert {command[0]: code for command, (code, _) in said.items() if code != 1} == {"diff": 2}


async def an_empty_cluster(visitor: object) -> None:
    """An API server that has none of our kinds."""
    while True:
        request = await visitor.request()  # type: ignore[attr-defined]
        is_version = request.startswith(b"GET /version")
        body = b'{"gitVersion": "v1.34.0"}' if is_version else b"404 page not found"
        status = b"200 OK" if is_version else b"404 Not Found"
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        await visitor.say(head % (status, len(body), body))  # type: ignore[attr-defined]


def test_a_cluster_without_services_is_named_first(folder: Path, capsys: Captured) -> None:
    asked = [command for command in COMMANDS if command[0] != "doctor"]  # which says more
    with serving(an_empty_cluster) as address:
        (folder / "config").write_text(kubeconfig(address))
        said = {command: (main(command), *capsys.readouterr()) for command in asked}

    line = "isvc: the cluster has no InferenceServices: install the operator, or KServe's CRDs, first\n"
    assert {command: found for command, found in said.items() if found[1:] != ("", line)} == {}
    assert {command[0]: code for command, (code, *_) in said.items() if code != 1} == {"diff": 2}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "it does not exist"),
        (b"", "it is empty"),
        (b"\xff\xfe\x00", "it is not UTF-8 text"),
        (b"a: [", "it is not YAML: line 1 cannot be read"),
        (b"since: 2026-13-45", "it is not YAML"),
        (b"[1]", "it has no fields such as clusters and contexts"),
        (b"contexts: 3", "contexts is not a list"),
        (b"users: [a]", "an item of users has no name"),
        (b"users: [{name: a, user: b}]", "users: user of a has no fields"),
        (
            b"clusters: [{name: a, cluster: {server: 7}}]",
            "clusters: the server of a is not a URL such as https://10.0.0.1:6443",
        ),
        (b"#" * 5_000_000, "it has more than 4194304 bytes"),
    ],
    ids=["missing", "empty", "not UTF-8", "not YAML", "no date", "a list", "no list", "no name", "no fields", "no URL",
         "large"],
)  # fmt: skip
def test_a_kubeconfig_that_is_none_is_named_in_one_line(
    folder: Path, content: bytes | None, why: str, capsys: Captured
) -> None:
    if content is not None:
        (folder / "config").write_bytes(content)

    found = {command: (main(command), *capsys.readouterr()) for command in COMMANDS}

    fix = "set KUBECONFIG or --kubeconfig to a file that kubectl can use"
    assert set(found.values()) == {(2, "", f"isvc: kubeconfig config cannot be used ({why}); {fix}\n")}


def test_of_several_kubeconfigs_those_that_exist_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("KUBECONFIG", "gone:config")
    (folder / "config").write_text(kubeconfig(f"http://127.0.0.1:{free_port()}"))

    assert main(["status"]) == 1
    assert "no response from the API server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["status", "-n", "BAD/ns"], "'BAD/ns' cannot be the name of a namespace"),
        (["status", "-n", "../../x"], "'../../x' cannot be the name of a namespace"),
        (["status", "-n", "a,b"], "'a,b' cannot be the name of a namespace"),
        (["dashboard", "-n", "a,"], "'' cannot be the name of a namespace"),
        (["migrate", "plan", "-n", "A"], "'A' cannot be the name of a namespace"),
        (["validate", "service.yaml", "-n", "BAD NS"], "'BAD NS' cannot be the name of a namespace"),
        (["diff", "service.yaml", "--home", ".."], "'..' cannot be the name of a namespace"),
        (["status", "x/y"], "'x/y' cannot be the name of a service"),
        (["logs", ".."], "'..' cannot be the name of a service"),
        (["diagnose", ""], "'' cannot be the name of a service"),
        (["predict", "http:/h:80/v1/models/a:predict"], "write isvc predict NAME --url http://HOST[:PORT]"),
        (["predict", "u:secret@h:80"], "write isvc predict NAME --url http://HOST[:PORT]"),
        (["dashboard", "--origin", "https//h"], "'https//h' is not an origin such as https://dashboard"),
        (["dashboard", "--origin", "https://h/x"], "'https://h/x' is not an origin such as https://dashboard"),
        (["predict", "../pods/x"], "'../pods/x' cannot be the name of a service"),
        (["bench", "../pods/x"], "'../pods/x' cannot be the name of a service"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_text_that_cannot_be_a_name_is_refused(arguments: list[str], what: str, capsys: Captured) -> None:
    assert main(arguments) == 2

    line = capsys.readouterr().err
    assert (what in line, line.count("\n")) == (True, 1)
