"""The worker process: runs one handler, one batch at a time, until its socket is closed.

It is forked from a process that has already imported torch, so it starts quickly. If its archive has its own packages,
or a module with the name of an imported one, it executes a new interpreter, which finds the archive's modules first.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import io
import logging
import multiprocessing
import os
import select
import socket
import sys
import threading
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import msgspec

from data_plane import gpu
from data_plane.garbage import no_collections
from data_plane.log_lines import IndentingFormatter, set_log_level
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.wire import HEAD, Kind, framed, framed_output

if TYPE_CHECKING:
    from mar_runtime.worker.handler import Handler

log = logging.getLogger(__name__)

_PROGRAM = "model_service_worker.py"  # TorchServe's name for the program of its workers
_RESTARTED = "from mar_runtime.worker.main import run_restarted; run_restarted()"


class Loaded(msgspec.Struct, frozen=True, array_like=True):
    """A worker's first message: empty if the handler is loaded, else why it is not."""

    failure: dict[str, str | None] | None = None


def run(spec: HandlerSpec, connection: socket.socket) -> None:
    """Run the worker; ends when the server closes the connection."""
    for name in spec.withheld:
        os.environ.pop(name, None)
    if spec.packages or _has_imported_names(spec.folder):
        _restart(spec, connection)
    _work(spec, connection)


def _has_imported_names(folder: str) -> bool:
    """Return whether the archive has a module with the name of an imported one."""
    names = {path.stem for path in Path(folder).glob("*.py")}
    names.update(path.parent.name for path in Path(folder).glob("*/__init__.py"))
    return not names.isdisjoint(sys.modules)


def _restart(spec: HandlerSpec, connection: socket.socket) -> NoReturn:
    """Execute a new interpreter in the same process, with the same connection."""
    connection.set_inheritable(True)
    if spec.packages:  # they have no bytecode yet, and every worker would compile them
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document = msgspec.json.encode(spec).decode()
    os.execv(sys.executable, [sys.executable, "-P", "-c", _RESTARTED, document, str(connection.fileno())])  # noqa: S606


def run_restarted() -> None:
    """Run the worker after `_restart`."""
    document, descriptor = sys.argv[1:]
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    _work(msgspec.json.decode(document, type=HandlerSpec), connection)


def _work(spec: HandlerSpec, connection: socket.socket) -> None:
    os.setsid()  # no signals for the server's group; and the handler's child processes can be killed with it
    threading.Thread(target=_exit_on_hangup, args=(connection.fileno(),), daemon=True).start()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Printed text is not lost when the process ends, and may contain any character.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    log = logging.StreamHandler(sys.stdout)
    model = spec.model.replace("%", "%%")
    text = f"%(asctime)s %(levelname)-7s {model} [worker %(process)d] %(message)s"
    log.setFormatter(IndentingFormatter(text, folder=spec.folder))
    logging.basicConfig(handlers=[log], force=True)
    set_log_level(spec.log_level)
    faulthandler.enable()
    prepare_process(spec)
    connection.setblocking(True)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(spec, connection)


def _exit_on_hangup(connection: int) -> None:
    """End the process when its connection closes, whatever the handler is doing."""
    poll = select.poll()
    poll.register(connection, 0)  # a hang-up is always reported
    poll.poll()
    os._exit(0)


def _serve(spec: HandlerSpec, connection: socket.socket) -> None:
    with no_collections():
        from mar_runtime.worker.handler import Handler  # imports torch, which the server's process does not need
    try:
        handler = Handler(spec)
    except HandlerNotLoaded as error:
        _send(connection, msgspec.msgpack.encode(Loaded(error.failure)))
        return
    _send(connection, msgspec.msgpack.encode(Loaded()))
    try:
        if spec.continuous:
            run_steps(handler, connection)
        else:
            run_batches(handler, connection)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException as error:
        log.critical("the handler ended its process", exc_info=error)
        _send(connection, handler.exit_message(error).encode(), Kind.EXIT_MESSAGE)
        raise


def run_batches(handler: Handler, connection: socket.socket) -> None:
    """Run one batch after the other, as long as the handler can use its GPU."""
    incoming = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 - the connection closes it
    while not handler.has_lost_gpu and (received := _receive(incoming)) is not None:
        _, number, frame = received
        send_piece = functools.partial(_send, connection, kind=Kind.PIECE, number=number)
        result = handler.run_frame(frame, send_piece)
        _say_if_last(handler, connection)
        _send(connection, result, number=number)


def run_steps(handler: Handler, connection: socket.socket) -> None:
    """Run the steps of a running batch, as long as the handler can use its GPU; requests join and leave in between."""
    incoming = open(connection.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115 - the connection closes it
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    batch = handler.running_batch()
    while not handler.has_lost_gpu:
        while not batch or waiting.poll(0):
            if (received := _receive(incoming)) is None:
                return
            kind, number, frame = received
            if kind == Kind.LEAVE:
                batch.leave(number)
            elif refusal := batch.join(number, frames.decode_batch(frame)):
                _send(connection, frames.encode(refusal), number=number)
        outputs = handler.step(batch)
        _say_if_last(handler, connection)
        connection.sendall(b"".join(framed_output(output, number) for number, output in outputs))


def _say_if_last(handler: Handler, connection: socket.socket) -> None:
    """Tell the server, before it gets the results, that no batch will be read after them."""
    if handler.has_lost_gpu:
        _send(connection, gpu.ENDED.encode(), Kind.LAST)


def _send(connection: socket.socket, frame: bytes, kind: Kind = Kind.WHOLE, number: int = 0) -> None:
    connection.sendall(framed(frame, kind, number))


def _receive(incoming: BinaryIO | FileIO) -> tuple[int, int, bytes] | None:
    """Return kind, number and content of a frame; None when the connection is closed, even within a frame."""
    head = _read(incoming, HEAD.size)
    if len(head) < HEAD.size:
        return None
    kind, number, length = HEAD.unpack(head)
    frame = _read(incoming, length)
    return (kind, number, frame) if len(frame) == length else None


def _read(incoming: BinaryIO | FileIO, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end; an unbuffered file may return fewer at a time."""
    found = incoming.read(size) or b""
    while 0 < len(found) < size and (more := incoming.read(size - len(found))):
        found += more
    return found


def prepare_process(spec: HandlerSpec) -> None:
    """Set up the process as TorchServe does: the handler's folder is first on the path, and the working directory.

    The handler may choose its own start method for processes. The server's arguments are not its own.
    """
    multiprocessing.set_start_method(None, force=True)
    sys.argv[:] = [_PROGRAM]
    own = [spec.folder, *([spec.packages] if spec.packages else [])]
    sys.path[:0] = own
    # As in TorchServe, for Python processes that the handler starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), *own)))
    os.chdir(spec.folder)
