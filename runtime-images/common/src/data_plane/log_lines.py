"""Log formatting that escapes text from clients, which cannot end a line, start another or control a terminal.

A traceback begins where the user's code does, unless DEBUG is logged.
"""

from __future__ import annotations

import logging
import sys
import traceback

from data_plane.limits import MAX_LOG_TEXT

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"
_CONTINUED = "    "  # before each further line of a record: no line of it can pass for another record
_LOADERS = ("importlib", "ts.model_loader")  # what imports a handler
OURS = frozenset({"data_plane", "mar_runtime", "torchserve_adapter", "torchserve_compat", "transformer_sdk"})
# What calls the user's code: ours, threads and event loops of Python, and servers in which the SDK may be.
CALLERS = OURS | sys.stdlib_module_names | {"uvloop", "uvicorn"}


def one_line(text: str) -> str:
    """`text` on one line, with what is not for printing as Python writes it: `\\n`, `\\x1b`, `\\u202e`."""
    return _escaped(_cut(text))


class OneLineFormatter(logging.Formatter):
    """Formats a record with its message on one line and a traceback indented.

    `folder` is that of the user's code: its files are named as they are in it.
    """

    def __init__(self, fmt: str | None = None, datefmt: str | None = None, *, folder: str = "") -> None:
        super().__init__(fmt, datefmt)
        self._folder = f"{folder}/" if folder else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = self._message(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        error = ei[1]  # type: ignore[index]
        shown = traceback.TracebackException.from_exception(error)
        if log_level() > logging.DEBUG:
            _begin_with_the_users(shown, error, self._folder)
        return _indented(_CONTINUED + _cut(self._named("".join(shown.format()).removesuffix("\n"))))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        return _indented(_CONTINUED + super().formatStack(stack_info))

    def _message(self, text: str) -> str:
        return one_line(self._named(text))

    def _named(self, text: str) -> str:
        return text.replace(self._folder, "") if self._folder else text


class IndentingFormatter(OneLineFormatter):
    """Formats the records of handlers: a message may have several lines, of which all but the first are indented."""

    def _message(self, text: str) -> str:
        return _indented(self._named(text))


def configure_logging(level: str) -> None:
    """Records of a level and above go to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(OneLineFormatter(_FORMAT))
    logging.basicConfig(handlers=[handler])
    set_log_level(logging.getLevelNamesMapping()[level])


def set_log_level(level: int) -> None:
    """Set the least level of what is logged; DEBUG is for our packages, of which libraries write too much."""
    logging.getLogger().setLevel(max(level, logging.INFO))
    for name in OURS:
        logging.getLogger(name).setLevel(level)


def log_level() -> int:
    return logging.getLogger("data_plane").getEffectiveLevel()


def _begin_with_the_users(shown: traceback.TracebackException, error: BaseException, folder: str) -> None:
    """Leave out the frames before the first one of a file in `folder`, or else before the first that is neither of what
    calls the user's code nor of what imports it. Of an error of the import itself, no frame is left; one of ours is
    whole.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [frame.f_globals.get("__name__", "") for frame in frames]
    users = [bool(folder) and frame.f_code.co_filename.startswith(folder) for frame in frames]
    others = [not (name.startswith(_LOADERS) or name.partition(".")[0] in CALLERS) for name in modules]
    alone = len(frames) if any(name.startswith(_LOADERS) for name in modules) else 0
    del shown.stack[: next((found.index(True) for found in (users, others) if True in found), alone)]
    for before, raised in ((shown.__cause__, error.__cause__), (shown.__context__, error.__context__)):
        if before and raised:
            _begin_with_the_users(before, raised, folder)


def _escaped(text: str) -> str:
    return text if text.isprintable() else "".join(map(_printable, text))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LOG_TEXT else f"{text[:MAX_LOG_TEXT]}… ({len(text)} characters)"


def _printable(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()


def _indented(text: str) -> str:
    return f"\n{_CONTINUED}".join(map(_escaped, text.split("\n")))
