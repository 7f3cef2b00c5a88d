"""``isvc migrate``: change a cluster over from KServe's controller, and back."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from isvc_operator.cli.exit_codes import EXIT_INVALID, EXIT_NO_EFFECT
from isvc_operator.migrate.plan_line import Level

_MOST = 20  # services at a time
_LONGEST = 570.0  # seconds, less than new pods are held back for


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command and its three steps."""
    steps = commands.add_parser("migrate", help="change a cluster over from KServe's controller, and back")
    every = steps.add_subparsers(dest="step", required=True, metavar="STEP")
    for name, text in (
        ("plan", "print what changes for each service; writes nothing"),
        ("apply", "change services over while they serve"),
        ("back", "give all services back to KServe's controller"),
    ):
        parser = every.add_parser(name, help=text)
        parser.add_argument("--kubeconfig", default=env.get("KUBECONFIG"), help="credentials [KUBECONFIG]")
        if name != "back":
            parser.add_argument(
                "--namespace", action="append", default=[], help="only this namespace; may be repeated (default: all)"
            )
            parser.add_argument(
                "--manifests",
                action="append",
                default=[],
                type=Path,
                metavar="FILE",
                help="YAML with the operator and its runtimes, which are installed; may be repeated",
            )
        if name == "apply":
            parser.add_argument(
                "--parallel",
                type=int,
                choices=range(1, _MOST + 1),
                default=2,
                metavar="NUMBER",
                help=f"services at a time, at most {_MOST}; each needs twice its pods (default: 2)",
            )
        if name != "plan":
            parser.add_argument(
                "--timeout", type=_seconds, default=300.0, help="seconds for each step of a service (default: 300)"
            )
        parser.set_defaults(run=run_command)


def _seconds(text: str) -> float:
    if not text.isdigit() or not 0 < int(text) <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to {_LONGEST:.0f}")
    return float(text)


def run_command(arguments: argparse.Namespace) -> int:
    """Run the step; return the exit code."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    # Importing the Kubernetes client takes a second, which the other commands do not need.
    from isvc_operator.kube.client import connect
    from isvc_operator.migrate.changeover import apply, back
    from isvc_operator.migrate.objects import Objects
    from isvc_operator.migrate.read import MigrationScope, make_plan, read_manifests
    from isvc_operator.migrate.session import Session

    async with connect(arguments.kubeconfig) as api:
        objects = Objects(api)
        session = Session(
            objects, _say, time.monotonic, asyncio.sleep, _now, patience=getattr(arguments, "timeout", _LONGEST)
        )
        if arguments.step == "back":
            await back(session)
            return 0
        scope = MigrationScope(tuple(arguments.namespace), read_manifests(arguments.manifests))
        plan = await make_plan(objects, scope, time.monotonic)
        if arguments.step == "plan" or plan.worst is Level.BLOCKING:
            for line in plan.lines():
                sys.stdout.write(f"{line}\n")
            return {Level.BLOCKING: EXIT_INVALID, Level.WARNING: EXIT_NO_EFFECT, Level.OK: 0}[plan.worst]
        await apply(session, scope, arguments.parallel)
        return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{datetime.now(UTC).strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
