"""What is run in both SDKs: a function of the SDK, and the public names whose behaviour it shows."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.conformance.sdk.values import plain, raised

KSERVE, OURS = "kserve", "transformer_sdk.kserve"


@dataclass(frozen=True)
class Sdk:
    """One of the two, by the name of its package."""

    package: str

    def __call__(self, module: str) -> ModuleType:
        """A module of it."""
        return importlib.import_module(f"{self.package}.{module}")

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.package), name)


@dataclass(frozen=True)
class Case:
    """`name` continues the sentence that the first of the names `shows` begins."""

    name: str
    shows: tuple[str, ...]
    run: Callable[[Sdk], Any]

    @property
    def id(self) -> str:
        return f"{self.shows[0]}: {self.name}"

    def outcome(self, sdk: Sdk) -> Any:
        """What it returns, or the name of what it raises, as JSON has it."""
        try:
            result = self.run(sdk)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            return plain(result)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return raised(error)


CASES: list[Case] = []


def case(name: str, *shows: str) -> Callable[[Callable[[Sdk], Any]], Callable[[Sdk], Any]]:
    """Makes a case of a function of the SDK."""

    def register(run: Callable[[Sdk], Any]) -> Callable[[Sdk], Any]:
        CASES.append(Case(name, shows, run))
        return run

    return register


def cases(*shows: str, **by_name: Callable[[Sdk], Any]) -> None:
    """Several of the same names; underscores in their names are spaces."""
    CASES.extend(Case(name.replace("_", " "), shows, run) for name, run in by_name.items())


def table(*shows: str, rows: Mapping[str, Any], run: Callable[[Sdk, Any], Any]) -> None:
    """A case for each row: its name, and what `run` is given."""

    def bound(row: Any) -> Callable[[Sdk], Any]:
        return lambda sdk: run(sdk, row)

    CASES.extend(Case(name, shows, bound(row)) for name, row in rows.items())
