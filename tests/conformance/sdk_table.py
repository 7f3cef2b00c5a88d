"""docs/sdk-conformance.md: KServe's SDK as it is installed, and ours, name by name, as the cases of `sdk` came out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conformance.sdk import answers, servers
from tests.conformance.sdk.case import CASES, KSERVE, OURS
from tests.conformance.sdk.differences import ALSO, DIFFERENT, NOT_OFFERED, OTHER_PARAMETERS
from tests.support.runtimes import ROOT

PAGE = ROOT / "docs/sdk-conformance.md"
_HEAD = """\
# Our SDK beside KServe's

Every public name of `kserve` {version} that authors of transformers and predictors meet, and what
`transformer_sdk.kserve` has under the same name. *The same* means that a test has run both, in {cases} cases, and
compared values, status codes, and exceptions by name; beside each name stands how many cases show it. Each difference
is on purpose, and has its reason.

This file is written by `python -m tests.conformance` from the outcome of `tests/conformance/sdk`; a test watches that
it is up to date, that no name is without a case, and that no difference is without a reason.
"""
_INFER_TYPES = "protocol.infer_type."
# What the cases of servers show of a name.
_SERVED: Mapping[str, tuple[str, ...]] = {
    "model_server.ModelServer.register_exception_handler": ("the start: `register_exception_handler`",),
    "model_server.ModelServer.start": ("a model given to*", "the start: *"),
    "model_repository.ModelRepository.load": ("a repository whose `load`: *",),
    "model_repository.ModelRepository.unload": ("a repository whose `unload`: *",),
    "model.Model.healthy": ("`healthy`: *",),
    "model.Model.load": ("the start: *`load`*",),
    "model.Model.start": ("the start: *`start`",),
    "model.Model.start_engine": ("the start: *`start_engine`",),
    "model.Model.stop": ("the end: *`stop`*",),
    "model.Model.stop_engine": ("the end: `stop_engine`",),
    "model.Model.get_input_types": ("`get_input_types`: *",),
    "model.Model.preprocess": ("hooks: *", "what a hook raises: *", "bodies*", "CloudEvents: *"),
    "model.Model.predict": ("hooks: *", "bodies*", "a transformer: w*", "over gRPC: outputs*", "over gRPC: a hook*"),
    "model.Model.explain": ("hooks: an explanation*", "a transformer: asked for an explanation*"),
    "model.Model.postprocess": ("what the last hook returns*",),
}


@dataclass(frozen=True)
class Comparison:
    """What each SDK has under each name, and its outcome of each case."""

    kserve_names: Mapping[str, Any]
    our_names: Mapping[str, Any]
    kserve: Mapping[str, Any]
    ours: Mapping[str, Any]

    def same(self, case: str) -> bool:
        return bool(self.kserve[case] == self.ours.get(case))

    def reason(self, case: str) -> str | None:
        """Why a case differs; None where nobody has said."""
        return DIFFERENT.get(_first(DIFFERENT, case) or "")

    def unexplained(self) -> list[str]:
        """What is neither the same, nor different or missing for a reason, nor shown by any case."""
        return [
            *(f"{case} differs" for case in self.kserve if not self.same(case) and self.reason(case) is None),
            *(f"{name} is missing" for name in self._missing() if _first(NOT_OFFERED, name) is None),
            *(
                f"{name} has no case"
                for name in self._offered()
                if not self.shows_value(name) and not self.cases_of(name)
            ),
            *(f"{name} is another" for name in self._others() if name not in OTHER_PARAMETERS),
        ]

    def needless(self) -> list[str]:
        """Reasons for what does not differ, or is there."""
        differing = [case for case in self.kserve if not self.same(case)]
        used = {_first(DIFFERENT, case) for case in differing}
        missing = {_first(NOT_OFFERED, name) for name in self._missing()}
        return [
            *(DIFFERENT.keys() - used),
            *(NOT_OFFERED.keys() - missing),
            *(OTHER_PARAMETERS.keys() - {*self._others()}),
        ]

    def shows_value(self, name: str) -> bool:
        """Whether a name is a constant, and ours is equal."""
        return bool(self.kserve_names[name]["kind"] == "value" and self.kserve_names[name] == self.our_names[name])

    def cases_of(self, name: str) -> list[str]:
        """The ids of the cases that show a name; those of a class show how it is made."""
        of = (name.removesuffix(".__init__").removeprefix(_INFER_TYPES), name.removeprefix(_INFER_TYPES))
        served = [one for one in self.kserve if any(fnmatchcase(one, pattern) for pattern in _SERVED.get(name, ()))]
        return [*(one.id for one in CASES if any(shown in of for shown in one.shows)), *served]

    def _missing(self) -> list[str]:
        return [name for name, one in self.our_names.items() if one["kind"] == "missing"]

    def _offered(self) -> list[str]:
        return [name for name, one in self.our_names.items() if one["kind"] != "missing"]

    def _others(self) -> list[str]:
        return [name for name in self._offered() if self.kserve_names[name] != self.our_names[name]]


def compare() -> Comparison:
    """Runs both SDKs: their cases in a process of each, and a server of each."""
    answers.load_cases()
    theirs = answers.of(KSERVE, [])
    ours = answers.of(OURS, list(theirs["names"]))
    served = {package: _served(package) for package in (KSERVE, OURS)}
    return Comparison(
        theirs["names"], ours["names"], {**theirs["cases"], **served[KSERVE]}, {**ours["cases"], **served[OURS]}
    )


def render(comparison: Comparison) -> str:
    """The whole page."""
    parts = [
        _HEAD.format(version=version("kserve"), cases=len(comparison.kserve)),
        "## Names", "", "| `kserve.` | cases | `transformer_sdk.kserve.` |", "|---|---|---|", *_names(comparison), "",
        "## Servers", "",
        "The same models on a server of each, asked the same. Of errors the status is compared, not the words.",
        "", "| | cases | |", "|---|---|---|", *_of_servers(comparison), "",
        "## More that differs on purpose", "", *(f"- {text}" for text in ALSO), "",
    ]  # fmt: skip
    return "\n".join(parts)


def _served(package: str) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        return servers.answers(package, Path(folder))


def _names(comparison: Comparison) -> Iterator[str]:
    told: set[str] = set()  # names that are missing for one reason are one row
    for name, one in comparison.our_names.items():
        if one["kind"] != "missing":
            yield from _offered(comparison, name)
            continue
        pattern = _first(NOT_OFFERED, name) or name
        if pattern not in told:
            told.add(pattern)
            others = ", the others" if "*" in pattern else ""
            yield f"| `{pattern}`{others} | – | not offered: {NOT_OFFERED.get(pattern, '**no reason**')} |"


def _offered(comparison: Comparison, name: str) -> Iterator[str]:
    cases = comparison.cases_of(name)
    differing = [case for case in cases if not comparison.same(case)]
    own = [case for case in differing if case.partition(": ")[0] == name.removeprefix(_INFER_TYPES)]
    but = [OTHER_PARAMETERS[name]] if name in OTHER_PARAMETERS else []
    but += [f"what stands at {where}" for where in _elsewhere(differing, own)]
    same = "the same" if not but and not own else f"the same, but for {'; '.join(but)}{' and' if but and own else ''}"
    yield f"| `{name}` | {len(cases) or 'its value'} | {same.rstrip()}{':' if own else ''} |"
    yield from _differing(comparison, own)


def _elsewhere(differing: list[str], own: list[str]) -> list[str]:
    """A difference is told once, under the first name that its case shows; those of servers under servers."""
    first = {one.id: one.shows[0] for one in CASES}
    others = dict.fromkeys(case for case in differing if case not in own)
    return list(dict.fromkeys(f"`{first[case]}`" if case in first else "[servers](#servers)" for case in others))


def _of_servers(comparison: Comparison) -> Iterator[str]:
    of_names = {one.id for one in CASES}
    groups: dict[str, list[str]] = {}
    for case in comparison.kserve:
        if case not in of_names:
            groups.setdefault(case.partition(": ")[0], []).append(case)
    for group, cases in groups.items():
        differing = [case for case in cases if not comparison.same(case)]
        yield f"| {group} | {len(cases)} | {'the same, but for:' if differing else 'the same'} |"
        yield from _differing(comparison, differing)


def _differing(comparison: Comparison, cases: list[str]) -> Iterator[str]:
    """A row for each reason."""
    by_reason: dict[str, list[str]] = {}
    for case in cases:
        by_reason.setdefault(comparison.reason(case) or "**no reason**", []).append(case.partition(": ")[2])
    for reason, named in by_reason.items():
        yield f"| – {'; '.join(named)} | | {reason} |"


def _first(patterns: Iterable[str], text: str) -> str | None:
    return next((one for one in patterns if fnmatchcase(text, one)), None)
