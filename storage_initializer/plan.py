"""What to do, from the arguments and the environment. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from storage_initializer.errors import UsageError, exit_codes
from storage_initializer.limits import CONNECT_TIMEOUT_S, MAX_ATTEMPTS, MAX_ATTEMPTS_SET, MAX_TIMEOUT_S, READ_TIMEOUT_S
from storage_initializer.schemes import forms
from storage_initializer.secrets import stored
from storage_initializer.selection import FileSelection, make_selection
from storage_initializer.uri import Uri, parse_uri

DEFAULT_TERMINATION_LOG = "/dev/termination-log"
_LARGEST_DISK = 1 << 60


class LayoutName(StrEnum):
    """The layout that is checked. ``auto`` checks for TorchServe's where the folder looks like it."""

    AUTO = "auto"
    TORCHSERVE = "torchserve"
    NONE = "none"


@dataclass(frozen=True)
class Transfer:
    source: Uri
    destination: Path


@dataclass(frozen=True)
class RequestPolicy:
    """For all servers: timeouts for a connection and for the next byte, and how often a request is sent."""

    connect_s: float
    read_s: float
    attempts: int


@dataclass(frozen=True)
class CachePlan:
    folder: Path
    limit: int


@dataclass(frozen=True)
class Plan:
    transfers: tuple[Transfer, ...]
    pvc_root: Path
    layout: LayoutName
    termination_log: Path
    policy: RequestPolicy
    selection: FileSelection
    # It holds secrets, which must not get into a message.
    environment: Mapping[str, str] = field(repr=False, compare=False)
    """Backends read their credentials and endpoints from it."""
    cache: CachePlan | None = None
    packages: Path | None = None
    """The folder of the node's cache in which the server keeps packages."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


def make_plan(arguments: Sequence[str], environment: Mapping[str, str]) -> Plan:
    environment = stored(environment)
    options = _parser(environment).parse_args(arguments)
    if len(options.pairs) % 2:
        raise UsageError(
            f"sources and destinations come in pairs, but {len(options.pairs)} arguments were given; "
            "write SRC DEST [SRC DEST ...]"
        )
    pairs = zip(options.pairs[::2], options.pairs[1::2], strict=True)
    return Plan(
        transfers=tuple(Transfer(parse_uri(source), Path(destination)) for source, destination in pairs),
        pvc_root=Path(options.pvc_root),
        layout=_layout_name(options.layout),
        termination_log=Path(options.termination_log),
        policy=_policy(environment),
        selection=make_selection(environment),
        environment=environment,
        cache=_cache(environment),
        packages=Path(environment["PACKAGE_CACHE"]) if environment.get("PACKAGE_CACHE") else None,
    )


def termination_log_of(environment: Mapping[str, str]) -> Path:
    """Return the file for the reason of a failure, even if the arguments are wrong."""
    return Path(environment.get("TERMINATION_LOG") or DEFAULT_TERMINATION_LOG)


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in exit_codes().items())
    parser = _Parser(
        prog="python -m storage_initializer",
        description="Copy models to where their server reads them: verified, and all or nothing.",
        epilog=f"sources: {forms()}, PATH\n\nexit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pairs", nargs="+", metavar="SRC DEST", help="a source and the folder to bring it to")
    parser.add_argument(
        "--pvc-root",
        default=environment.get("STORAGE_PVC_ROOT") or "/mnt/pvc",
        help="folder under which claims are mounted by their names (env STORAGE_PVC_ROOT; default /mnt/pvc)",
    )
    parser.add_argument(
        "--layout",
        default=environment.get("STORAGE_LAYOUT") or LayoutName.AUTO,
        help="what the copy must look like: auto, torchserve or none (env STORAGE_LAYOUT; default auto)",
    )
    parser.add_argument(
        "--termination-log",
        default=termination_log_of(environment),
        help=f"file for the one-line reason of a failure (env TERMINATION_LOG; default {DEFAULT_TERMINATION_LOG})",
    )
    return parser


def _policy(environment: Mapping[str, str]) -> RequestPolicy:
    """Return the policy for all servers; the variables have KServe's names."""
    return RequestPolicy(
        connect_s=_number(environment, "S3_CONNECT_TIMEOUT", default=CONNECT_TIMEOUT_S, most=MAX_TIMEOUT_S),
        read_s=_number(environment, "S3_READ_TIMEOUT", default=READ_TIMEOUT_S, most=MAX_TIMEOUT_S),
        attempts=int(_number(environment, "S3_MAX_ATTEMPTS", default=MAX_ATTEMPTS, most=MAX_ATTEMPTS_SET)),
    )


def _cache(environment: Mapping[str, str]) -> CachePlan | None:
    if not (folder := environment.get("STORAGE_CACHE")):
        return None
    return CachePlan(Path(folder), int(_number(environment, "STORAGE_CACHE_SIZE", default=0, most=_LARGEST_DISK)))


def _number(environment: Mapping[str, str], name: str, *, default: float, most: int) -> float:
    text = environment.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not number >= 1:
        raise UsageError(f"{name} is {text!r}; set it to a number of at least 1")
    if number > most:
        raise UsageError(f"{name} is {text!r}; set it to {most} at most")
    return number


def _layout_name(text: str) -> LayoutName:
    """Check the layout. argparse does not check a default, and ours may be from the environment."""
    try:
        return LayoutName(text)
    except ValueError:
        raise UsageError(f"unknown layout {text!r}; choose from {', '.join(LayoutName)}") from None
