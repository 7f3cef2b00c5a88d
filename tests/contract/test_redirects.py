"""No HTTP client follows a redirect by itself: a server would choose where a token, or a request, goes.

The storage-initializer follows those of stores in ``storage_initializer/backends/redirects.py``, which takes the
credentials off for another host.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("operator/src", "storage_initializer", "transformer_sdk", "runtime-images")
_METHODS = {"get", "post", "put", "patch", "delete", "head", "options", "request", "urlopen"}
# The argument by which a client leaves redirects alone, by the library that a module imports.
_OFF = {"aiohttp": "allow_redirects", "urllib3": "redirect"}


def modules() -> Iterator[tuple[Path, ast.Module, str]]:
    """Yield the modules that import a client, with the argument that turns its redirects off."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not any(name in text for name in _OFF):  # to parse all of them takes half a second in each worker
                continue
            tree = ast.parse(text)
            names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
            yield from ((path, tree, _OFF[name]) for name in _OFF.keys() & names)


def requests(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls that send a request: ``session.get(…)`` and the like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            owner = ast.unparse(node.func.value).rpartition(".")[2]
            if owner in ("session", "_session", "aiohttp", "urllib3") or "manager(" in ast.unparse(node.func.value):
                yield node


FOUND = [(path, call, argument) for path, tree, argument in modules() for call in requests(tree)]


@pytest.mark.parametrize(("path", "call", "argument"), FOUND, ids=lambda value: getattr(value, "name", ""))
def test_a_request_leaves_redirects_alone(path: Path, call: ast.Call, argument: str) -> None:
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}

    assert given.get(argument) == "False", f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"


def test_every_module_with_a_client_is_looked_at() -> None:
    assert {path.relative_to(ROOT).as_posix() for path, _, _ in FOUND} == {
        "operator/src/isvc/bench/load.py",
        "operator/src/isvc/predict/send.py",
        "operator/src/isvc/run/caller.py",
        "operator/src/isvc/run/cluster.py",
        "operator/src/isvc/run/ingress.py",
        "operator/src/isvc/run/probes.py",
        "operator/src/isvc/source/runs.py",
        "operator/src/isvc/source/metrics.py",
        "operator/src/isvc_operator/kube/client.py",
        "runtime-images/common/src/data_plane/client/http.py",
        "storage_initializer/backends/client.py",
    }
