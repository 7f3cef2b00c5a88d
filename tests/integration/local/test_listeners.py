"""Whose a port is: of a process, of what it has started, or of another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isvc.run.container import Probe
from isvc.run.listeners import is_foreign
from isvc.run.probes import of_ours

_LISTEN = (
    "import socket; s = socket.create_server(('%s', 0), family=socket.%s); print(s.getsockname()[1], flush=True); "
)
_OF_A_CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], start_new_session=%s)"


@contextmanager
def listening(*arguments: str) -> Iterator[tuple[int, int]]:
    """A process of a group of its own, and the port that it or its child listens on until it is to end."""
    with subprocess.Popen(
        [sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as process:
        assert process.stdout
        yield process.pid, int(process.stdout.readline())
        process.communicate(b"")


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", "AF_INET"), ("::", "AF_INET6")])
@pytest.mark.parametrize("child", [None, False, True], ids=["own", "child", "child-with-a-session"])
def test_a_port_is_of_a_process_and_of_what_it_has_started(host: str, family: str, child: bool | None) -> None:
    listens = _LISTEN % (host, family) + "input()"
    arguments = (listens,) if child is None else (_OF_A_CHILD % child, listens)
    with listening(*arguments) as (process, port), listening(_LISTEN % ("127.0.0.1", "AF_INET") + "input()") as other:
        assert [is_foreign(port, process), is_foreign(port, other[0])] == [False, True]
        assert not is_foreign(1, process)  # on which nobody listens


def test_where_the_system_has_no_proc_no_port_is_foreign(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr("isvc.run.listeners._PROC", tmp_path)
    assert not is_foreign(1, 1)


@pytest.mark.parametrize(
    ("action", "reason", "found"),
    [
        ({"httpGet": {"port": 80}}, "", "port 80 is another process'"),
        ({"httpGet": {"port": 80}}, "503", "503"),
        ({"exec": {"command": ["true"]}}, "", ""),
    ],
)
async def test_a_probe_that_another_process_answers_does_not_succeed(
    monkeypatch: pytest.MonkeyPatch, action: dict[str, object], reason: str, found: str
) -> None:
    monkeypatch.setattr("isvc.run.probes.is_foreign", lambda port, process: True)

    async def check() -> str:
        return reason

    assert await of_ours(check, Probe(action), 1)() == found
