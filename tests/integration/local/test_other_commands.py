"""What other commands find of an ``isvc run``: it is asked where there is no kubeconfig, or with --local."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from isvc.commands import isvc, main
from isvc.source import runs
from tests.support.isvc_process import Sandbox, read_until, stop
from tests.support.local_services import runtime, service, write_yaml
from tests.support.ports import free_port

READY = "Ctrl-C stops it."
Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def no_kubeconfig(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    """A user without ~/.kube/config, whose temporary folder is that of the sandbox.

    In the other one, /tmp, other tests have their runs.
    """
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(sandbox.folder))
    monkeypatch.setattr(tempfile, "tempdir", str(sandbox.temporary))
    monkeypatch.setattr(runs, "_SHORT", str(sandbox.temporary))


def said(capsys: Captured, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and what it has printed."""
    capsys.readouterr()
    code = main(arguments)
    return code, "".join(capsys.readouterr())


def completions(*words: str) -> list[str]:
    """What a shell completes the last word to."""
    complete = ShellComplete(isvc, {}, "isvc", "_ISVC_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def yaml_of(sandbox: Sandbox, *names: str) -> tuple[Path, str, str]:
    file = write_yaml(sandbox.folder / f"{'-'.join(names)}.yaml", *map(service, names), runtime())
    return file, "--pvc", f"models={sandbox.folder / 'models'}"


def test_commands_find_a_run_where_there_is_no_cluster(sandbox: Sandbox, capsys: Captured) -> None:
    data = '{"instances": [1]}'
    (sandbox.folder / "sample.json").write_text('{"instances": [7]}\n')
    with sandbox.running(*yaml_of(sandbox, "first", "second")) as process:
        announced = read_until(process.stdout, READY)
        listed = said(capsys, "status", "-o", "json")
        one = said(capsys, "status", "first")
        logs = said(capsys, "logs", "first", "-c", "storage-initializer", "-o", "json")
        diagnosed = said(capsys, "diagnose", "second")
        failed = said(capsys, "predict", "second", "-d", '{"instances": ["a bug"]}')
        diagnosed_then = said(capsys, "diagnose", "second", "-o", "json")
        predicted = said(capsys, "predict", "first", "-d", data)
        sampled = said(capsys, "predict", "first")
        measured_sample = said(capsys, "bench", "first", "--requests", "2", "-o", "json")
        measured = said(capsys, "bench", "second", "-d", data, "--requests", "10", "-o", "json")
        page = said(capsys, "dashboard")
        completed = [completions(*words) for words in (("logs", ""), ("predict", "se"), ("bench", "-n", "other", ""))]
        missing = [said(capsys, *asked) for asked in (["status", "third"], ["predict", "third", "-d", data])]
        stop(process)
    after = said(capsys, "status")

    names = [(found["name"], found["health"]) for found in json.loads(listed[1])["services"]]
    assert names == [("first", "Ready"), ("second", "Ready")]
    address = f"http://127.0.0.1:{sandbox.port}/default"
    assert {found["name"]: found["url"] for found in json.loads(listed[1])["services"]} == {
        name: f"{address}/{name}" for name in ("first", "second")
    }
    assert one[1].startswith(f"first in namespace default Ready\n   url      {address}/first\n")
    assert any(json.loads(line)["text"] == "copied weights (5 B)" for line in logs[1].splitlines())
    assert diagnosed == (0, "second in namespace default: Ready\nNothing is wrong.\n")
    findings = [item["cause"] for item in json.loads(diagnosed_then[1])["findings"]]
    assert (failed[0], diagnosed_then[0], findings) == (
        1, 0, ["1 of 1 requests have failed since its pods started: 1 with HTTP 500"],
    )  # fmt: skip
    assert (predicted[0], '"service": "first"' in predicted[1]) == (0, True)
    assert (sampled[0], 'isvc: note: without --data, a sample is sent: {"instances": [7]}\n' in sampled[1]) == (0, True)
    assert json.loads(measured_sample[1])["responses"] == 2
    assert json.loads(measured[1])["responses"] == 10
    address, _, names = page[1].partition("  ")
    assert (f"The dashboard is at {address}\n" in announced, names) == (True, "first, second\n")
    assert completed == [["first", "second"], ["second"], []]
    none = "isvc: there is no InferenceService 'third' in namespace default; there are: first, second\n"
    assert missing == [(1, none), (1, none)]
    assert after == (
        2, "isvc: no kubeconfig is set, and no isvc run of yours is running on this machine; start one: isvc run FILE, "
        "or set KUBECONFIG or --kubeconfig to a file that kubectl can use\n",
    )  # fmt: skip


def test_with_local_a_run_is_asked_although_there_is_a_cluster(
    sandbox: Sandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(sandbox.folder / "config"))
    other = Sandbox(sandbox.folder, sandbox.temporary, free_port())

    none = said(capsys, "status", "--local")
    with sandbox.running(*yaml_of(sandbox, "first")) as one, other.running(*yaml_of(sandbox, "second")) as two:
        for process in (one, two):
            read_until(process.stdout, READY)
        both = said(capsys, "status", "--local", "-o", "json")
        elsewhere = said(capsys, "status", "--local", "-n", "other")
        cluster = said(capsys, "status")
        for process in (one, two):
            stop(process)

    assert none == (1, "isvc: no isvc run of yours is running on this machine; start one: isvc run FILE\n")
    assert [found["name"] for found in json.loads(both[1])["services"]] == ["first", "second"]
    assert elsewhere == (0, "There are no InferenceServices here.\n")
    assert (cluster[0], "kubeconfig" in cluster[1]) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["status", "--local", "--context", "c"], "--context is of a cluster: leave it out, or --local."),
        (["predict", "a", "-d", "[]", "--local", "--url", "http://a"], "--url is another way than --local"),
        (["bench", "a", "--local", "--address", "a"], "--address is another way than --local"),
        (["bench", "http://a", "--local"], "--local is of a service: leave it out, or give a NAME."),
        (["dashboard", "--local", "--origin", "https://a"], "--local is of this user alone"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_flag_that_would_have_no_effect_beside_local_is_refused(
    arguments: list[str], why: str, capsys: Captured
) -> None:
    code, text = said(capsys, *arguments)

    assert (code, why in text) == (2, True)


def test_a_socket_that_another_user_could_have_made_is_not_asked(sandbox: Sandbox, capsys: Captured) -> None:
    with sandbox.running(*yaml_of(sandbox, "first")) as process:
        read_until(process.stdout, READY)
        (folder,) = sandbox.temporary.glob("isvc-*")
        folder.chmod(0o777)
        code, text = said(capsys, "status", "--local")
        stop(process)

    assert (code, text.startswith("isvc: no isvc run of yours")) == (1, True)
