"""`isvc predict`: flags that do not go together, what it reads, and how it prints an answer."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from pathlib import Path

import pytest

from isvc.commands import main
from tests.support.scripted_server import ScriptedServer, Visitor, scripted

Captured = pytest.CaptureFixture[str]
BINARY = b"\x89PNG\r\n\x1a\n\xff"


async def predicted(answer: bytes, *arguments: str, user: str = "") -> tuple[int, ScriptedServer]:
    async def model(visitor: Visitor) -> None:
        while True:
            request = await visitor.request()
            content = answer if request.startswith(b"POST") else b'{"models": ["bert"]}'
            await visitor.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))

    async with scripted(model) as server:
        flags = ["predict", "bert", "-d", "[1]", "--url", f"http://{user}{server.host}", *arguments]
        return await asyncio.to_thread(main, flags), server


@pytest.mark.parametrize("answer", [BINARY, b"[4]", b"[4]\n", b""], ids=["no text", "text", "a line", "nothing"])
async def test_to_a_file_an_answer_is_written_as_it_is(
    answer: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert (await predicted(answer))[0] == 0

    assert capfdbinary.readouterr().out == answer


async def test_a_terminal_gets_no_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    assert (await predicted(BINARY))[0] == 0

    assert terminal.getvalue() == ""
    assert (
        "the answer is 9 bytes of application/octet-stream, and no text; send it to a file" in capsys.readouterr().err
    )


async def test_as_json_an_answer_that_is_no_text_keeps_its_bytes(capsys: Captured) -> None:
    await predicted(BINARY, "-o", "json")

    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], base64.b64decode(found["answerBase64"])) == (None, BINARY)


async def test_as_json_numbers_that_json_does_not_have_are_texts(capsys: Captured) -> None:
    await predicted(b'{"predictions": [NaN, Infinity, -Infinity, 1e999, -1e999, 1.5]}', "-o", "json")

    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    expected = ["NaN", "Infinity", "-Infinity", "Infinity", "-Infinity", 1.5]
    assert (found["answer"]["predictions"], found["answerBase64"]) == (expected, None)


async def test_a_user_in_the_url_is_sent_and_not_shown(capsys: Captured) -> None:
    code, server = await predicted(b"[4]", "-o", "json", user="user:p%40ss@")

    assert code == 0
    assert all(b"Authorization: Basic dXNlcjpwQHNz\r\n" in request for request in server.requests)
    printed = capsys.readouterr()
    assert "p%40ss" not in printed.out + printed.err


async def test_the_variable_of_the_kubeconfig_is_for_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/absent")

    assert (await predicted(b"[4]"))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url=http://h", "--port-forward"], "--port-forward is a way into a cluster: leave it out, or --url."),
        (["--url=http://h", "--address=a"], "--address is a way into a cluster: leave it out, or --url."),
        (["--url=http://h", "--context=c"], "--context is a way into a cluster: leave it out, or --url."),
        (["--url=http://h", "--kubeconfig=k"], "--kubeconfig is a way into a cluster: leave it out, or --url."),
        (["--host=h"], "--host is of the service at --url: leave it out, or add --url."),
        (["--port-forward", "--address=a"], "--address is another way than --port-forward: leave out one of them."),
        (["--url="], "Invalid value for '--url': it is empty; give a value, or leave the option out."),
        (["--model="], "Invalid value for '--model': it is empty; give a value, or leave the option out."),
    ],
    ids=" ".join,
)
def test_a_flag_that_would_have_no_effect_is_refused(arguments: list[str], words: str, capsys: Captured) -> None:
    assert main(["predict", "bert", "-d", "[1]", *arguments]) == 2

    assert capsys.readouterr() == ("", f"isvc: {words} See: isvc predict --help\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--url=http://h", "--host=a\r\nX: y"], r"--host 'a\r\nX: y' cannot be a host; write NAME or NAME:PORT"),
        (["--url=http://h", "--host=[::1"], "--host '[::1' cannot be a host; write NAME or NAME:PORT"),
        (["--url=http://a:secret@h:99999"], "--url: '…@h:99999' is not the URL of a server; write http://HOST[:PORT]"),
        (["--url=http:/a:secret@h"], "--url: '…@h' is not the URL of a server; write http://HOST[:PORT]"),
        (["--url=http://a\tb"], "--url: "),
        (["--url=http://h?a=1"], "--url: 'http://h?a=1' has a query; write it without ?a=1"),
    ],
    ids=["host", "brackets", "port", "slash", "tab", "query"],
)
def test_what_would_change_the_request_is_refused(flags: list[str], words: str, capsys: Captured) -> None:
    assert main(["predict", "bert", "-d", "[1]", *flags]) == 2

    assert capsys.readouterr().err.startswith(f"isvc: {words}")


@pytest.mark.parametrize(
    "flags", [["-d", "@/dev/zero"], ["-f", "/dev/zero"], ["-f", "a=one", "-f", "b=one"]], ids=" ".join
)
def test_a_request_without_an_end_is_refused(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("isvc.commands.predict.PREDICT_BODY_BYTES", 1000)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").write_bytes(bytes(600))

    assert main(["predict", "bert", *flags, "--url=http://h"]) == 2

    assert capsys.readouterr().err.endswith(" bytes; use a smaller one\n")


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("list.json", "isvc: note: --file sends list.json as it is; to send it as a request of v1 or v2, write -d "
         "@list.json\n"),
        ("cat.jpg", ""),
        ("data=list.json", ""),
    ],
)  # fmt: skip
async def test_json_that_is_refused_as_a_file_is_told_how_it_is_sent_as_a_request(
    name: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    async def refusing(visitor: Visitor) -> None:
        while True:
            await visitor.request()
            await visitor.say(b"HTTP/1.1 400 Refused\r\ncontent-length: 14\r\n\r\n" + b'{"error":"no"}')

    monkeypatch.chdir(tmp_path)
    (tmp_path / name.rpartition("=")[2]).write_text("[1]")
    async with scripted(refusing) as server:
        code = await asyncio.to_thread(main, ["predict", "bert", "-f", name, "--url", f"http://{server.host}"])

    assert (code, capsys.readouterr().err) == (
        1,
        f"isvc: http://{server.host}/predictions/bert returned 400: no\n{note}",
    )


async def test_a_file_that_a_handler_did_not_take_is_told_how_torchserves_own_take_it(
    tmp_path: Path, capsys: Captured
) -> None:
    async def failing(visitor: Visitor) -> None:
        while True:
            await visitor.request()
            await visitor.say(b"HTTP/1.1 500 Failed\r\ncontent-length: 14\r\n\r\n" + b'{"error":"no"}')

    (tmp_path / "cat.jpg").write_bytes(b"\xff\xd8")
    async with scripted(failing) as server:
        flags = ["predict", "bert", "-f", f"image={tmp_path / 'cat.jpg'}", "--url", f"http://{server.host}"]
        code = await asyncio.to_thread(main, flags)

    assert (code, capsys.readouterr().err) == (
        1,
        f"isvc: http://{server.host}/predictions/bert returned 500: no\n"
        "isvc: note: TorchServe's own handlers take --file FILE or --file data=FILE, without --protocol v1\n",
    )


async def test_of_a_sample_that_is_not_taken_it_is_said_that_it_may_not_fit(capsys: Captured) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1]}

    async def refusing(visitor: Visitor) -> None:
        while True:
            asked = await visitor.request()
            body = b'{"error":"no"}' if asked.startswith(b"POST") else json.dumps({"inputs": [tensor]}).encode()
            status = b"500 Failed" if asked.startswith(b"POST") else b"200 OK"
            await visitor.say(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    async with scripted(refusing) as server:
        code = await asyncio.to_thread(main, ["predict", "bert", "--url", f"http://{server.host}"])

    assert code == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"isvc: http://{server.host}/v2/models/bert/infer returned 500: no",
        "isvc: note: the sample may not fit the model: give a request with --data or --file",
    ]
