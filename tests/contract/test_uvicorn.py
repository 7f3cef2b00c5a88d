"""The parts of uvicorn that are not public API and that `data_plane/server/connection.py` is built on.

What they do is shown in `tests/unit/data_plane` (`test_connection.py`, `test_connections.py`).

When a newer uvicorn fails here, read what changed before you raise the bound in `data_plane/pyproject.toml`. The lower
bound is the oldest version that passes here and there.
"""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import logging
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server

from data_plane.server.connection import ServerConnection
from data_plane.server.run import HttpServer, _is_no_routine

ROOT = Path(__file__).parents[2]

# What ServerConnection reads or sets of HttpToolsProtocol's.
PROTOCOL = {
    "config", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope", "transport", "url",
    "_unset_keepalive_if_required",
}  # fmt: skip
# What it reads or sets of its cycle's.
CYCLE = {
    "disconnected", "keep_alive", "message_event", "more_body", "response_complete", "response_started",
    "waiting_for_100_continue",
}  # fmt: skip
# What HttpServer reads or sets of Server's, whose API it is.
SERVERS = {"config", "serve", "should_exit"}
OVERRIDDEN = {
    ServerConnection: (HttpToolsProtocol, {
        "__init__", "connection_lost", "connection_made", "data_received", "on_body", "on_header",
        "on_headers_complete", "on_message_begin", "on_message_complete", "on_response_complete", "pause_writing",
        "resume_writing", "shutdown",
    }),
    HttpServer: (Server, {"__init__", "capture_signals"}),
}  # fmt: skip


# --- the version ----------------------------------------------------------------------------------------


def test_the_version_is_bounded_and_the_pinned_one_is_the_newest_within_the_bound() -> None:
    project = tomllib.loads((ROOT / "runtime-images/common/src/data_plane" / "pyproject.toml").read_text())["project"]
    (bound,) = [one for one in map(Requirement, project["dependencies"]) if one.name == "uvicorn"]
    pinned = re.search(r"^uvicorn==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    major, minor, _ = map(int, pinned[1].split("."))

    assert bound.specifier.contains(pinned[1])
    assert bound.specifier.contains(importlib.metadata.version("uvicorn"))
    assert not bound.specifier.contains(f"{major}.{minor + 1}.0")


# --- the names ------------------------------------------------------------------------------------------


def uses(file: str, name: str, *owners: str) -> set[str]:
    """The attributes that a class reads or sets of these expressions."""
    nodes = ast.walk(ast.parse((ROOT / "runtime-images/common/src/data_plane" / "server" / file).read_text()))
    (tree,) = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name]
    return {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners
    }


def own_names(cls: type, *made_in_init: str) -> set[str]:
    """The attributes that the class itself defines."""
    return {*vars(cls), *vars(cls).get("__annotations__", ()), *made_in_init}


def test_the_names_in_use_are_those_that_are_tested_here() -> None:
    connection, server = ServerConnection.__name__, HttpServer.__name__
    of_protocol = uses("connection.py", connection, "self") - own_names(ServerConnection, "_connections", "_head")
    of_cycle = uses("connection.py", connection, "cycle", "self.cycle")
    of_server = uses("run.py", server, "self") - own_names(HttpServer, "_certificate", "_connections", "_listener")

    assert (of_protocol, of_cycle, of_server) == (PROTOCOL, CYCLE, SERVERS)


@pytest.mark.parametrize("cls", OVERRIDDEN, ids=lambda cls: cls.__name__)
def test_what_is_overridden_is_there_with_the_parameters_that_are_passed(cls: type) -> None:
    base, names = OVERRIDDEN[cls]

    assert {name for name in vars(cls) if name in vars(base) and inspect.isfunction(vars(cls)[name])} == names
    for name in names - {"__init__"}:
        assert len(inspect.signature(vars(cls)[name]).parameters) == len(inspect.signature(vars(base)[name]).parameters)


# --- the log ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "is_logged"), [(logging.INFO, False), (logging.WARNING, True), (logging.ERROR, True)]
)
def test_the_routine_of_uvicorn_is_not_logged_and_its_errors_are(level: int, is_logged: bool) -> None:
    assert _is_no_routine(logging.LogRecord("uvicorn.error", level, "", 0, "Shutting down", None, None)) is is_logged
