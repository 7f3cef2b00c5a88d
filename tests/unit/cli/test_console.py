"""The script `isvc`: Ctrl-C at any time, and standard streams that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

# Sends SIGINT to itself when a module is imported, as Ctrl-C would at that moment.
_INTERRUPTED = """
import os, signal, sys
from isvc.console import main

module = sys.argv.pop()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""
_AT_ITS_END = """
import atexit, os, signal
from isvc.console import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
main()
"""
_RUN = "from isvc.console import main; main()"

# Python cannot raise what an object's end raises.
_IN_AN_OBJECTS_END = """
import os, signal, time
from isvc import console
from isvc.commands import completion

class Object:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def run(*_, **__):
    Object()
    time.sleep(30)

completion.command.callback = run
console.main()
"""


def isvc(*arguments: str, script: str = _RUN, shell: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    environment = {**os.environ, "KUBECONFIG": "/nowhere"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["--help"], "click"),
        (["status"], "isvc.commands.status"),
        (["validate", "/nowhere"], "yaml"),
        (["inspect", "/nowhere"], "subprocess"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_ctrl_c_while_a_module_is_imported_prints_no_traceback(arguments: list[str], module: str) -> None:
    done = isvc(*arguments, module, script=_INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_ctrl_c_when_it_ends_prints_no_traceback() -> None:
    done = isvc("completion", "bash", script=_AT_ITS_END)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_an_object_ends_is_not_lost() -> None:
    done = isvc("completion", "bash", script=_IN_AN_OBJECTS_END)
    assert (done.returncode, done.stderr) == (130, "\n")


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
        ("2>/dev/full", 0, ""),
        (">/dev/full", 1, "isvc: the output cannot be written: No space left on device\n"),
        ("| true", 0, ""),
    ],
)
def test_a_standard_stream_that_cannot_be_used_is_no_traceback(shell: str, code: int, said: str) -> None:
    done = isvc("completion", "bash", shell=shell)
    assert (done.returncode, done.stderr) == (code, said)


def test_an_error_is_told_by_the_exit_code_alone_if_stderr_is_full() -> None:
    assert isvc("nothing", shell="2>/dev/full").returncode == 2
