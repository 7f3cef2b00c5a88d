"""The script ``isvc``: what Python prints a traceback for around a command, and people cause every day.

That is Ctrl-C while modules are imported or the process ends, standard streams that are closed, full or have a narrow
encoding. A command itself gets KeyboardInterrupt and cleans up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

_AGAIN = 0.1  # seconds, after which Python does something else than to end an object
_FAILED, _INVALID, _INTERRUPTED = 1, 2, 130  # as in commands.exit_codes; nothing that takes time is imported here


def main() -> NoReturn:
    """Run ``isvc``, and exit with its code."""
    is_ours = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # as for a job in the background of a script
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    sys.unraisablehook = _report
    _open_streams()
    run = _command_line()
    try:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    raise SystemExit(_flushed(code))


def _command_line() -> Callable[[], int]:
    """Return what runs the command; the wheel without an extra has not even what reads its arguments."""
    try:
        from isvc.commands import main as run
    except ModuleNotFoundError as error:
        from isvc.extras import advice

        if (line := advice(error.name)) is None:
            raise
        sys.stderr.write(f"isvc: {line}\n")
        raise SystemExit(_INVALID) from None
    return run


def _end(*_: object) -> None:
    os._exit(_INTERRUPTED)


def _report(dropped: Any) -> None:
    """Report what an object's end has raised; Ctrl-C, which was not for the object, is sent again.

    A timer of the kernel's sends it: to start a thread takes longer than it waits where processors are busy.
    """
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    else:
        sys.__unraisablehook__(dropped)


def _open_streams() -> None:
    """Open closed standard streams on nothing: the next file that is opened would take their place.

    What the encoding of an open one lacks is escaped.
    """
    while (nothing := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(nothing)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 - stays open
    for stream in (sys.stdout, sys.stderr):
        cast(Any, stream).reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Return the exit code: 1 if the output cannot be written, which is said unless nobody reads it any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout.fileno())
        return code or _FAILED
    except OSError as error:
        _drop(sys.stdout.fileno())
        from isvc_operator.text import unwritten

        sys.stderr.write(f"isvc: {unwritten(error)}\n")
        return code or _FAILED
    return code


def _drop(stream: int) -> None:
    """Lead a stream into nothing, so that Python has no complaint when it flushes it at its end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream)
    os.close(nothing)


if __name__ == "__main__":
    main()
