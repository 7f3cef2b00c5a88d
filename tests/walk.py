"""`python -m tests.walk` prints how far one goes through the code to follow one reconcile; with `--route`, the way.

A service that the shipped runtime of TorchServe serves is reconciled for the first time, against the API server in
memory, and its children are created: once with a predictor alone, once with a transformer. Counted are the functions of
`isvc_operator` that run in `Reconciler.reconcile`, each once, in the order in which they run for the first time: as
somebody reads them who follows the calls and reads nothing twice. What runs once for the process, such as reading the
fields of a model, has run before.

- functions: those with a name, methods and properties among them. Comprehensions, generator expressions and lambdas
  belong to the function that they are written in; `with comprehensions` counts them as well.
- modules: the files of these functions.
- stays in `resolve/`: how often that order comes into a module of `resolve/` from another module, whichever it is.
- returns: those of the stays that come into a module in which the order was before.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import isvc_operator
from tests.support.builders import Manifest, a_service_body, the_shipped_runtime_body
from tests.support.reconcile_fixture import KEY, Cluster, cluster_with

_PRODUCT = Path(isvc_operator.__file__).parent
_TRANSFORMER = {"containers": [{"name": "kserve-container", "image": "registry.example/transformer:1.0"}]}
SERVICES = {
    "a predictor": a_service_body(),
    "a predictor and a transformer": a_service_body(spec={"transformer": _TRANSFORMER}),
}


class Function(NamedTuple):
    """A function of the product; `module` is its file, below the package."""

    module: str
    name: str

    @property
    def is_named(self) -> bool:
        """Whether it is more than a comprehension, a generator expression or a lambda."""
        return not self.name.endswith(">")


@dataclass(frozen=True)
class Walk:
    """All functions in the order in which they run for the first time."""

    every: tuple[Function, ...]

    @property
    def functions(self) -> tuple[Function, ...]:
        """Those with a name."""
        return tuple(function for function in self.every if function.is_named)

    @property
    def modules(self) -> set[str]:
        """The files of all functions."""
        return {function.module for function in self.functions}

    def stays(self, package: str) -> tuple[str, ...]:
        """The modules of a package in the order in which the walk comes into them from another module."""
        order = (module for module, _ in groupby(function.module for function in self.functions))
        return tuple(module for module in order if module.startswith(f"{package}/"))


class Recorder:
    """What `sys.setprofile` calls: notes each function of the product when it is called for the first time."""

    def __init__(self) -> None:
        self.found: dict[Function, None] = {}
        self._root = f"{_PRODUCT}/"

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._root):
            self.found.setdefault(Function(code.co_filename.removeprefix(self._root), code.co_qualname))


async def walk(service: Manifest) -> Walk:
    """Reconcile the service; what coverage or a debugger has set in place of a profiler is set again."""
    warm, cluster = _cluster(service), _cluster(service)
    await warm.reconciler.reconcile(KEY)
    recorder, before = Recorder(), sys.getprofile()
    sys.setprofile(recorder)
    try:
        await cluster.reconciler.reconcile(KEY)
    finally:
        sys.setprofile(before)
    return Walk(tuple(recorder.found))


def _cluster(service: Manifest) -> Cluster:
    cluster = cluster_with(service, the_shipped_runtime_body())
    cluster.api.feed(cluster.cache)
    return cluster


def main(arguments: Sequence[str]) -> None:
    """Print the figures, and the route if it is asked for."""
    for name, service in SERVICES.items():
        walked = asyncio.run(walk(service))
        if "--route" in arguments:
            for module, functions in groupby(walked.functions, key=lambda function: function.module):
                print(f"  {module}: {' '.join(function.name for function in functions)}")
        functions, every, stays = len(walked.functions), len(walked.every), walked.stays("resolve")
        print(f"{name}: {functions} functions ({every} with comprehensions) in {len(walked.modules)} modules")
        print(f"  resolve/: {len(stays)} stays in {len(set(stays))} modules, {len(stays) - len(set(stays))} returns")


if __name__ == "__main__":
    main(sys.argv[1:])
