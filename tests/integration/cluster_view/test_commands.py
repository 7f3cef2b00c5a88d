"""`isvc status`, `isvc diagnose` and `isvc logs` on a real API server."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isvc.commands import main
from isvc.commands.exit_codes import EXIT_INTERRUPTED
from tests.support.apiserver import ApiServer
from tests.support.builders import a_deployment, a_pod, an_initializer, ended, running
from tests.support.limited_users import SERVICES, a_reader
from tests.support.related_objects import a_problem_of, a_related
from tests.support.stored_objects import store

Captured = pytest.CaptureFixture[str]

WITHIN = 20.0  # seconds
ONE_STARTS = a_deployment(available=0)


@pytest.fixture
def here(apiserver: ApiServer, namespace: str) -> list[str]:
    """The flags of a command for this namespace."""
    return [f"--kubeconfig={apiserver.kubeconfig}", f"--namespace={namespace}"]


def test_services_are_a_table(
    apiserver: ApiServer, namespace: str, another: str, here: list[str], capsys: Captured
) -> None:
    store(apiserver, namespace, a_related())
    assert main(["status", *here]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "NAME"
    assert re.fullmatch(r"torchserve +Ready +1/1 +\d+s +http://torchserve\.models\.example\.com", line)

    store(apiserver, another, a_problem_of("NoSupportingRuntime", "no runtime serves it"))
    assert main(["status", "-A", f"--kubeconfig={apiserver.kubeconfig}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("NAMESPACE")
    assert any(line.startswith(f"{another} ") and "NoSupportingRuntime" in line for line in lines)


def test_services_that_no_operator_has_looked_at_are_told(
    apiserver: ApiServer, namespace: str, here: list[str], capsys: Captured
) -> None:
    untouched = a_related()
    store(apiserver, namespace, replace(untouched, service={**untouched.service, "status": {}}, pods=()))

    said = [(main([*command, *here]), capsys.readouterr().err) for command in (["status"], ["diagnose", "torchserve"])]

    note = "isvc: note: no operator has looked at these services; isvc doctor tells whether one runs\n"
    assert said == [(0, note), (1, note)]


def test_nothing_is_wrong_with_a_service_that_serves(
    apiserver: ApiServer, namespace: str, here: list[str], capsys: Captured
) -> None:
    store(apiserver, namespace, a_related())

    assert main(["diagnose", "torchserve", *here]) == 0
    assert capsys.readouterr().out == f"torchserve in namespace {namespace}: Ready\nNothing is wrong.\n"


@pytest.mark.parametrize(
    "command", [["status"], ["diagnose"], ["logs"], ["logs", "-f"], ["status", "-w"]], ids=" ".join
)
def test_a_name_that_does_not_exist_is_told_which_there_are(
    apiserver: ApiServer, namespace: str, here: list[str], command: list[str], capsys: Captured
) -> None:
    store(apiserver, namespace, a_related())

    assert main([*command, "torchsreve", *here]) == 1
    assert capsys.readouterr() == (
        "",
        f"isvc: there is no InferenceService 'torchsreve' in namespace {namespace}; there are: torchserve\n",
    )


def test_what_may_not_be_seen_is_said_beside_the_output(
    apiserver: ApiServer, namespace: str, tmp_path: Path, capsys: Captured
) -> None:
    store(apiserver, namespace, a_related())
    reader = a_reader(apiserver, namespace, [SERVICES], tmp_path)

    assert main(["status", f"--kubeconfig={reader}", f"--namespace={namespace}"]) == 0
    printed = capsys.readouterr()
    assert "torchserve" in printed.out
    assert f"isvc: note: you may not list and watch pods in namespace {namespace}\n" in printed.err


def test_what_a_service_says_of_itself_forges_no_line(
    apiserver: ApiServer, namespace: str, here: list[str], capsys: Captured
) -> None:
    hostile = "\x1b[2J[red]x[/red]\nfix       run my script"
    related: Any = a_problem_of(f"Bad{hostile}", hostile)

    store(apiserver, namespace, related)
    for command in (["status"], ["status", "torchserve"], ["diagnose", "torchserve"]):
        main([*command, *here])
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "[red]x[/red]" in out
        assert not any(line.startswith("fix       run my script") for line in out.splitlines())


@contextmanager
def watching(output: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`isvc status -w` as a process that prints to a file descriptor."""
    command = [sys.executable, "-c", "from isvc.commands import main; raise SystemExit(main())"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40", "PYTHONUNBUFFERED": "1"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen([*command, "status", "-w", *arguments], env=environment, stdout=output) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_a_watch_shows_each_change(
    apiserver: ApiServer, namespace: str, here: list[str], *, on_a_terminal: bool
) -> None:
    """In place on a terminal, and as a line elsewhere."""
    store(apiserver, namespace, a_related(a_pod(initializer=an_initializer(running())), deployment=ONE_STARTS))
    reading, writing = os.openpty() if on_a_terminal else os.pipe()
    with watching(writing, *here) as process:
        os.close(writing)
        shown = read_until(b"Starting", reading)
        assert b"LoadingModel" in shown
        failed = a_pod(initializer=an_initializer(ended(5, "there is no modl-store")))
        store(apiserver, namespace, replace(a_related(failed, deployment=ONE_STARTS), children=[]))
        shown = read_until(b"there is no modl-store", reading)
        assert (b"\x1b[" in shown) is on_a_terminal

        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN) == EXIT_INTERRUPTED
    os.close(reading)


def read_until(words: bytes, descriptor: int) -> bytes:
    """What is printed up to the line with these words."""
    shown = b""
    while words not in shown:
        ready, _, _ = select.select([descriptor], [], [], WITHIN)
        assert ready, shown
        part = os.read(descriptor, 4096)
        assert part, shown
        shown += part
    return shown
