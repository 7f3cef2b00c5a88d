"""`isvc bench`: its options, its words, its bounds. What is sent and counted is in tests/unit/bench."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from array import array
from collections import Counter
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from isvc import limits
from isvc.bench.load import Responses
from isvc.commands import main
from tests.support.object_stores import tls
from tests.support.scripted_server import OK, ScriptedServer, Visitor, scripted

Captured = pytest.CaptureFixture[str]
FORM = "write http://HOST[:PORT]/PATH, or https://…"
PROGRAM = "from isvc.console import main; main()"


async def answering(visitor: Visitor) -> None:
    while True:
        request = await visitor.request()
        await visitor.say(OK if b"fail" not in request else OK.replace(b"200 OK", b"503 Busy"))


async def bench(path: str, *arguments: str) -> tuple[int, ScriptedServer]:
    async with scripted(answering) as server:
        return await asyncio.to_thread(main, ["bench", f"http://{server.host}{path}", *arguments]), server


async def test_a_closed_loop_is_told_in_words(capsys: Captured) -> None:
    code, server = await bench("/v1", "--requests", "20", "-c", "2")

    told = re.sub(r"\d[\d.,]*\b", "N", capsys.readouterr().out)
    lines = [re.sub(r" +", " ", line) for line in told.splitlines()]
    assert (code, len(server.requests)) == (0, 20)
    assert lines[:5] == [
        "GET http://N:N/vN (N connections)",
        "N responses in N s, N a second",
        "",
        "LATENCY mean min pN pN pN pN pN pN max",
        "ms N N N N N N N N N",
    ]
    assert lines[6] == "UP TO RESPONSES"


async def test_a_body_from_a_file_is_posted_as_json(tmp_path: Path) -> None:
    (tmp_path / "sample.json").write_text('{"instances":[1]}')

    code, server = await bench(
        "/", "--requests=1", "-d", f"@{tmp_path}/sample.json", "-H", "Host: bert.example.com", "-H", "X: 1"
    )

    (request,) = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert (code, body) == (0, b'{"instances":[1]}')
    assert sorted(head.split(b"\r\n")) == [
        b"Accept: */*", b"Content-Length: 17", b"Content-Type: application/json", b"Host: bert.example.com",
        b"POST / HTTP/1.1", b"User-Agent: isvc-bench", b"X: 1",
    ]  # fmt: skip


async def test_at_a_rate_as_json(capsys: Captured) -> None:
    code, _ = await bench("/", "--rate", "100", "--time", "0.2", "--output", "json")

    found = json.loads(capsys.readouterr().out)
    assert (code, found["rate"], found["responses"], found["connections"]) == (0, 100.0, 20, 256)


async def test_a_failure_is_exit_code_1(capsys: Captured) -> None:
    code, _ = await bench("/fail", "--requests", "3")

    assert code == 1
    assert '3 failed: status 503\nthe first with status 503 said: {"predictions":[7]}\n' in capsys.readouterr().out


@pytest.fixture
def certificate(tmp_path: Path) -> tls.Certificate:
    return tls.issue(tmp_path)


async def test_a_server_with_a_certificate_of_ones_own(certificate: tls.Certificate) -> None:
    flags = ["--cacert", str(certificate.authority)]

    async with scripted(answering, tls=certificate.server_context()) as server:
        trusted = await asyncio.to_thread(main, ["bench", f"https://{server.host}/", "--requests=4", "-c2", *flags])
        asked = len(server.requests)
        unknown = await asyncio.to_thread(main, ["bench", f"https://{server.host}/", "--requests=4", "-c2"])

    assert (trusted, asked) == (0, 4)
    assert (unknown, len(server.requests)) == (1, 4)


# --- a service -----------------------------------------------------------------------------------------


def answers(document: object) -> bytes:
    content = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content)


async def model_server(visitor: Visitor) -> None:
    """Of one model, which says what its inputs are."""
    while True:
        request = await visitor.request()
        if request.startswith(b"GET /v1/models "):
            await visitor.say(answers({"models": ["net"]}))
        elif request.startswith(b"GET /v2/models/net "):
            await visitor.say(answers({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}))
        else:
            await visitor.say(OK if request.startswith(b"POST") else answers({}))


async def bench_service(*arguments: str) -> tuple[int, list[tuple[bytes, bytes, bytes]]]:
    """The exit code, and of each request for a prediction: path, host and body."""
    async with scripted(model_server) as server:
        code = await asyncio.to_thread(
            main, ["bench", "digits", "--url", f"http://{server.host}", "--requests=3", *arguments]
        )
    sent = [request for request in server.requests if request.startswith(b"POST")]
    return code, [
        (request.split()[1], re.findall(rb"(?i)\r\nhost: (.*)\r\n", request)[0], request.partition(b"\r\n\r\n")[2])
        for request in sent
    ]


async def test_without_data_a_request_is_made_from_what_the_model_says_of_its_inputs() -> None:
    code, sent = await bench_service("-n", "team")

    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.0, 0.0]}]}
    assert code == 0
    assert sent == [(b"/v2/models/net/infer", b"digits.team.example.com", json.dumps(body).encode())] * 3


async def test_a_model_that_does_not_say_what_it_takes_needs_data(capsys: Captured) -> None:
    code, sent = await bench_service("--model", "other")

    assert (code, sent) == (2, [])
    assert capsys.readouterr().err == ("isvc: other does not say what it takes; give a request with --data @FILE\n")


# --- what cannot be done -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://h"], f"'ftp://h' is not the URL of a server; {FORM}"),
        (["https:/user:secret@h/v1"], f"'…@h/v1' is not the URL of a server; {FORM}"),
        (["http:/h"], f"'http:/h' is not the URL of a server; {FORM}"),
        (["http://h/", "-d@gone"], "gone cannot be read: No such file or directory"),
        (["http://h/", "-d", __file__], f"{__file__} is a file; to send what is in it, write -d @{__file__}"),
        (["http://h/", "-Hfoo"], "'foo' cannot be a header; write NAME: VALUE"),
        (["http://h/", "-Hhost: [::1"], "'host: [::1' cannot be a header; write NAME: VALUE"),
        (
            ["http://user:secret@h:0/"],
            f"'…@h:0/' is not the URL of a server; {FORM}",
        ),
        (["http://h/", "-H\nX: 1\r\nY: 2"], r"'X: 1\r\nY: 2' cannot be a header; write NAME: VALUE"),
    ],
    ids=[
        "url",
        "slash and password",
        "slash",
        "file",
        "name of a file",
        "no colon",
        "host",
        "password",
        "header",
    ],
)
def test_what_cannot_be_sent_is_exit_code_2(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(["bench", *arguments]) == 2

    assert capsys.readouterr() == ("", f"isvc: {message}\n")


@pytest.mark.parametrize(
    ("option", "bound"),
    [
        ("--connections", limits.BENCH_CONNECTIONS),
        ("--time", limits.BENCH_SECONDS),
        ("--timeout", limits.BENCH_SECONDS),
        ("--rate", limits.BENCH_RATE),
        ("--requests", limits.BENCH_REQUESTS),
    ],
)
def test_what_is_beyond_a_bound_is_refused(option: str, bound: int, capsys: Captured) -> None:
    refused(option, str(bound + 1), capsys)


@pytest.mark.parametrize("option", ["--time", "--timeout", "--rate"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-1", "1e999", "x", ""])
def test_what_is_no_finite_number_is_refused(option: str, value: str, capsys: Captured) -> None:
    refused(option, value, capsys)


def refused(option: str, value: str, capsys: Captured) -> None:
    assert main(["bench", "http://127.0.0.1/", f"{option}={value}"]) == 2

    refusal = re.match(r"isvc: Invalid value for (?:'-\w' / )?'(\S+)': ", capsys.readouterr().err)
    assert refusal
    assert refusal[1] == option


def test_a_body_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("isvc.commands.bench.BENCH_BODY_BYTES", 10)
    (tmp_path / "body").write_bytes(bytes(11))

    assert main(["bench", "http://127.0.0.1/", "-d", f"@{tmp_path}/body"]) == 2

    assert capsys.readouterr().err.endswith("body has more than 10 bytes; use a smaller one\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://h", "--model=m"], "--model is of a service: leave it out, or give a NAME."),
        (["http://h", "--address=a"], "--address is of a service: leave it out, or give a NAME."),
        (["http://h", "--url=http://g"], "--url is of a service: leave it out, or give a NAME."),
        (["name", "--url=http://g", "--address=a"], "--address is a way into a cluster: leave it out, or --url."),
        (["http://h", "-nteam"], "--namespace is of a service: leave it out, or give a NAME."),
        (["http://h", "--context=c"], "--context is of a service: leave it out, or give a NAME."),
        (["name", "--url=http://g", "--context=c"], "--context is a way into a cluster: leave it out, or --url."),
        (
            ["name", "--url=http://g", "--kubeconfig=k"],
            "--kubeconfig is a way into a cluster: leave it out, or --url.",
        ),
        (["name", "--url="], "Invalid value for '--url': it is empty; give a value, or leave the option out."),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_flag_that_would_have_no_effect_is_refused(arguments: list[str], words: str, capsys: Captured) -> None:
    assert main(["bench", *arguments]) == 2

    assert capsys.readouterr() == ("", f"isvc: {words} See: isvc bench --help\n")


async def test_a_user_in_the_url_is_sent_and_not_shown(capsys: Captured) -> None:
    async with scripted(answering) as server:
        url = f"http://user:p%40ss@{server.host}/"
        code = await asyncio.to_thread(main, ["bench", url, "--requests=1", "-ojson"])

    assert code == 0
    assert b"Authorization: Basic dXNlcjpwQHNz\r\n" in server.requests[0]
    assert json.loads(capsys.readouterr().out)["url"] == f"http://{server.host}/"


def test_an_interrupted_run_shows_what_was_measured(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    seen = Responses(latencies=array("d", [0.01]), statuses=Counter({200: 1}), seconds=1, interrupted=True)
    monkeypatch.setattr("isvc.bench.load.load", AsyncMock(return_value=seen))

    assert main(["bench", "http://h/"]) == 130

    words = "1 responses in 1.0 s, 1.0 a second\ninterrupted: this is what was measured until then\n"
    assert words in capsys.readouterr().out


@pytest.mark.process
def test_ctrl_c_ends_a_run_in_order() -> None:
    async def interrupted_bench() -> int:
        async with scripted(answering) as server:
            return await asyncio.to_thread(_interrupted, server)

    def _interrupted(server: ScriptedServer) -> int:
        command = [sys.executable, "-P", "-c", PROGRAM, "bench", f"http://{server.host}/", "-ojson"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while not server.requests and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        assert json.loads(printed)["interrupted"]
        return process.returncode

    assert asyncio.run(interrupted_bench()) == 130
