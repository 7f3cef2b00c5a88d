"""A worker process: holds one handler and runs one batch at a time, until its socket is closed.

It is forked from a process that has imported torch already, so a new one is there in a moment. One whose archive brings
packages of its own, or modules of the same names, gives that up and begins afresh: it would not find them.
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

from data_plane.log_lines import IndentingFormatter
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.wire import HEAD, Kind, framed, framed_output

if TYPE_CHECKING:
    from mar_runtime.worker.handler import Handler

log = logging.getLogger(__name__)

_AFRESH = "from mar_runtime.worker.main import go_on; go_on()"


class Loaded(msgspec.Struct, frozen=True, array_like=True):
    """A worker's first message: nothing if the handler is loaded, else why it is not."""

    failure: dict[str, str | None] | None = None


def run(spec: HandlerSpec, connection: socket.socket) -> None:
    """The process' main function; ends when the other side closes the connection."""
    for name in spec.withheld:
        os.environ.pop(name, None)
    if spec.packages or _has_imported_names(spec.folder):
        _begin_afresh(spec, connection)
    _work(spec, connection)


def _has_imported_names(folder: str) -> bool:
    """Whether the archive has a module of the name of one that is imported already."""
    names = {path.stem for path in Path(folder).glob("*.py")}
    names.update(path.parent.name for path in Path(folder).glob("*/__init__.py"))
    return not names.isdisjoint(sys.modules)


def _begin_afresh(spec: HandlerSpec, connection: socket.socket) -> NoReturn:
    """The same process, and the same connection, with an interpreter that has imported nothing."""
    connection.set_inheritable(True)
    document = msgspec.json.encode(spec).decode()
    os.execv(sys.executable, [sys.executable, "-c", _AFRESH, document, str(connection.fileno())])  # noqa: S606


def go_on() -> None:
    """The main function of a process that has begun afresh."""
    document, descriptor = sys.argv[1:]
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    _work(msgspec.json.decode(document, type=HandlerSpec), connection)


def _work(spec: HandlerSpec, connection: socket.socket) -> None:
    os.setsid()  # signals for the server's group are not for it, and what the handler starts can be ended with it
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a handler prints is not lost with its process, and may be any text.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    log = logging.StreamHandler(sys.stdout)
    model = spec.model.replace("%", "%%")
    log.setFormatter(IndentingFormatter(f"%(asctime)s %(levelname)-7s {model} [worker %(process)d] %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[log], force=True)
    faulthandler.enable()
    prepare_process(spec)
    connection.setblocking(True)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(spec, connection)


def _end_with(connection: int) -> None:
    """Ends the process with its connection, whatever the handler does at that moment."""
    poll = select.poll()
    poll.register(connection, 0)  # a hang-up is always told
    poll.poll()
    os._exit(0)


def _serve(spec: HandlerSpec, connection: socket.socket) -> None:
    from mar_runtime.worker.handler import Handler  # imports torch, which the server's process does not need

    try:
        handler = Handler(spec)
    except HandlerNotLoaded as error:
        _send(connection, msgspec.msgpack.encode(Loaded(error.failure)))
        return
    _send(connection, msgspec.msgpack.encode(Loaded()))
    try:
        if spec.continuous:
            _step(handler, connection)
        else:
            _answer(handler, connection)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException as error:
        log.critical("the handler ended its process", exc_info=error)
        _send(connection, handler.last_words(error).encode(), Kind.EXIT_MESSAGE)
        raise


def _answer(handler: Handler, connection: socket.socket) -> None:
    """One batch after the other."""
    incoming = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 - the connection's to close
    while (received := _receive(incoming)) is not None:
        _, number, frame = received
        send_piece = functools.partial(_send, connection, kind=Kind.PIECE, number=number)
        _send(connection, handler.response(frame, send_piece), number=number)


def _step(handler: Handler, connection: socket.socket) -> None:
    """One running batch: between any two steps of the handler requests join and leave it."""
    incoming = open(connection.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115 - the connection's to close
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    batch = handler.running_batch()
    while True:
        while not batch or waiting.poll(0):
            if (received := _receive(incoming)) is None:
                return
            kind, number, frame = received
            if kind == Kind.LEAVE:
                batch.leave(number)
            elif refusal := batch.join(number, frames.decode_batch(frame)):
                _send(connection, frames.encode(refusal), number=number)
        connection.sendall(b"".join(framed_output(output, number) for number, output in handler.step(batch)))


def _send(connection: socket.socket, frame: bytes, kind: Kind = Kind.WHOLE, number: int = 0) -> None:
    connection.sendall(framed(frame, kind, number))


def _receive(incoming: BinaryIO | FileIO) -> tuple[int, int, bytes] | None:
    """Kind, number and content of a frame; None when the connection is closed, be it in the middle of one."""
    head = _read(incoming, HEAD.size)
    if len(head) < HEAD.size:
        return None
    kind, number, length = HEAD.unpack(head)
    frame = _read(incoming, length)
    return (kind, number, frame) if len(frame) == length else None


def _read(incoming: BinaryIO | FileIO, size: int) -> bytes:
    """As much as is wanted, less at the end; an unbuffered file gives what there is."""
    found = incoming.read(size) or b""
    while 0 < len(found) < size and (more := incoming.read(size - len(found))):
        found += more
    return found


def prepare_process(spec: HandlerSpec) -> None:
    """The surroundings that TorchServe gives a handler: its folder first on the path, and as working directory.

    How its own processes are started is for the handler to choose, however it was started itself.
    """
    multiprocessing.set_start_method(None, force=True)
    own = [spec.folder, *([spec.packages] if spec.packages else [])]
    sys.path[:0] = own
    # As in TorchServe, for the Python processes that the handler starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), *own)))
    os.chdir(spec.folder)


def memory_bytes(pid: int) -> int:
    """Resident memory of a process; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
