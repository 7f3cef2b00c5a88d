"""Every reason that the operator writes into a condition or an Event has its place in docs/troubleshooting.md.

And `isvc diagnose` names each of those that a service fails for, with the cause and a fix.

Reasons are found in the source: what is passed to, assigned to, or the default of anything called `reason`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc.view.diagnosis import diagnose
from isvc.view.fixes import fix_for
from isvc.view.service import view_of
from isvc.view.source import Related
from storage_initializer.errors import exit_codes
from tests.support.failing_pods import FAILING_PODS
from tests.support.failing_services import FAILING_SERVICES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator/src/isvc_operator"
STAGES = {"WaitingForDeployment", "Scheduling", "PreparingPod", "LoadingModel", "StartingServer"}
GOOD = {
    "NewReplicaSetAvailable", "TrafficHeld", "InferenceServiceReady", "InferenceServiceNotReady", "RolloutUpdated",
    "DriftCorrected",
}  # fmt: skip
OF_MODEL_STATUS = {"ModelLoadFailed", "RuntimeUnhealthy"}
# Of no service, beside a failure that has its own reason, or of pods that serve as they should.
NOT_DIAGNOSED = {"InvalidConfig", "PredictorNotResolved", "OperatorUpgraded", "RolloutQueued"}
# Whose message ends with what helps: it names the claim, the gateway, or what else it takes.
SAID_IN_THE_MESSAGE = {failure.reason for _, failure in FAILING_PODS.values() if failure.fix} | {
    "ClaimElsewhere",
    "ClaimInUse",
    "InvalidConfig",  # an Event for the administrator
    "NotAccepted",
    "ParentStatusOutdated",
    "PredictorNotResolved",
    "ScaledObjectNotReady",
    "ScalingInactive",
    "SettingsIgnored",  # another one
    "VolumeNotMounted",
}


@functools.cache
def modules() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))]


def positions() -> dict[str, int]:
    """Return where functions and dataclasses of the operator take a `reason`, by their names."""
    found = {}
    for node in nodes():
        match node:
            case ast.FunctionDef(name=name):
                names = parameters(node)
            case ast.ClassDef(name=name, body=body):
                made = next((parameters(item) for item in body if getattr(item, "name", "") == "__init__"), None)
                names = made or fields(body)
            case _:
                continue
        if "reason" in names:
            found[name] = names.index("reason")
    return found


@functools.cache
def reasons() -> set[str]:
    constants = dict(text_constants())
    used = {found for expression in expressions(positions()) for found in texts(expression, constants)}
    return {text for text in used if re.fullmatch(r"[A-Z][A-Za-z]+", text)}


def expressions(taken: dict[str, int]) -> Iterator[ast.expr]:
    for node in nodes():
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments) if name in taken:
                yield from arguments[taken[name] : taken[name] + 1]
            case ast.FunctionDef(args=arguments):
                defaults = zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)
                yield from (default for argument, default in defaults if argument.arg == "reason")
            case ast.Assign(targets=[ast.Name(id="reason")], value=value):
                yield value
            case ast.keyword(arg="reason", value=value):
                yield value


def texts(expression: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(expression):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) if name in constants:
                yield constants[name]


def text_constants() -> Iterator[tuple[str, str]]:
    for module in modules():
        for node in module.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
                ):
                    yield name, text


def nodes() -> Iterator[ast.AST]:
    return (node for module in modules() for node in ast.walk(module))


def parameters(function: ast.FunctionDef) -> list[str]:
    """Return those that a caller passes by position."""
    return [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]


def fields(body: list[ast.stmt]) -> list[str]:
    return [item.target.id for item in body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]


def test_reasons_of_every_form_are_found() -> None:
    """An argument, a keyword, a default, an attribute, a constant, one of two, and a row of a table."""
    assert reasons() >= {
        "ClaimNotFound", "RuntimeDisabled", "ServerFailed", "InvalidPredictorSpec", "ReconcileFailed", "HostTaken",
        "InferenceServiceNotReady", "ClaimNotBound",
    }  # fmt: skip


def test_each_has_its_place_in_troubleshooting() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()

    assert sorted(reason for reason in reasons() if f"`{reason}`" not in page) == []


def test_each_reason_of_a_failure_has_a_fix() -> None:
    known = reasons() - STAGES - GOOD - OF_MODEL_STATUS - SAID_IN_THE_MESSAGE

    assert sorted(reason for reason in known if not fix_for(reason)) == []


def test_each_exit_code_of_the_storage_initializer_has_a_fix_of_its_own() -> None:
    general = fix_for("StorageInitializerFailed")

    assert [code for code in exit_codes() if code and fix_for("StorageInitializerFailed", code) == general] == []


@pytest.mark.parametrize(("reason", "related", "words"), FAILING_SERVICES.values(), ids=FAILING_SERVICES.keys())
def test_each_is_diagnosed_first_with_its_cause_and_a_fix(reason: str, related: Related, words: str) -> None:
    first = diagnose(view_of(related)).findings[0]

    assert first.reason == reason
    assert words in first.cause
    assert first.fix


def test_each_reason_of_a_failure_is_diagnosed() -> None:
    known = reasons() - STAGES - GOOD - OF_MODEL_STATUS - NOT_DIAGNOSED

    assert sorted(known - {reason for reason, _, _ in FAILING_SERVICES.values()}) == []
