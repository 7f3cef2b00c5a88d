"""Makes each Python of a run believe that it is on macOS: no /proc, no prctl, no functions that only Linux has, and
shorter paths of Unix sockets.

A process that needs one of them fails with an error that names it. On PYTHONPATH, Python imports this module at its
start. Linux stays what it is underneath, so this shows what code asks for, not what macOS would answer.
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

# Functions of ``os`` that Python has only on Linux, of those that our code could want.
_ONLY_LINUX = (
    "copy_file_range", "eventfd", "getrandom", "memfd_create", "pidfd_open", "posix_fadvise", "posix_fallocate",
    "sched_getaffinity", "sched_setaffinity", "setns", "splice", "unshare",
)  # fmt: skip
_OURS = (
    "isvc", "isvc_operator", "storage_initializer", "model_archive", "data_plane", "transformer_sdk",
    "torchserve_compat", "torchserve_adapter", "mar_runtime",
)  # fmt: skip
_SUN_PATH = 103  # bytes; Linux has 107
_readlink, _stat = os.readlink, os.stat


class _Sys:
    """The module ``sys`` as our own packages get it; libraries were built for Linux, and get the real one."""

    platform = "darwin"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)


_sys = _Sys()
_import = builtins.__import__


def _import_as_on_macos(name: str, variables: Any = None, *others: Any, **more: Any) -> Any:
    ours = name == "sys" and str((variables or {}).get("__name__", "")).partition(".")[0] in _OURS
    return _sys if ours else _import(name, variables, *others, **more)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory, as on macOS", arguments[0])
    if event == "socket.bind" and isinstance(arguments[1], str | bytes) and len(os.fsencode(arguments[1])) > _SUN_PATH:
        raise OSError(f"AF_UNIX path too long, as on macOS: {arguments[1]!r}")
    if event == "ctypes.dlsym" and arguments[1] == "prctl":
        raise AttributeError("prctl: no such function, as on macOS")


def _readlink_without_proc(path: Any, **options: Any) -> Any:
    if str(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory, as on macOS", path)
    return _readlink(path, **options)


def _stat_without_proc(path: Any, **options: Any) -> Any:
    if not isinstance(path, int) and os.fsdecode(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory, as on macOS", path)
    return _stat(path, **options)


for _name in _ONLY_LINUX:
    if hasattr(os, _name):
        delattr(os, _name)
os.readlink, os.stat = _readlink_without_proc, _stat_without_proc
builtins.__import__ = _import_as_on_macos
sys.addaudithook(_refuse)
