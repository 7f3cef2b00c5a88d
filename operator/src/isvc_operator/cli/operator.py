"""``isvc operator``, also ``python -m isvc_operator``: watch a cluster and serve its InferenceServices."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from isvc_operator.cli.log_format import LogFormatter


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command; every flag has an environment variable as its default."""
    parser = commands.add_parser("operator", help="watch a cluster and serve its InferenceServices")
    add_flags(parser, env)


def add_flags(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """The operator's flags."""
    parser.add_argument(
        "--kubeconfig",
        default=env.get("KUBECONFIG"),
        help="credentials [KUBECONFIG]; without it, the pod's service account",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[item for item in env.get("WATCH_NAMESPACES", "").split(",") if item],
        help="watch only this namespace; may be repeated [WATCH_NAMESPACES, comma-separated]",
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        default=env.get("CONFIG_DIR"),
        help="folder with the keys of inferenceservice-config as files [CONFIG_DIR]",
    )
    parser.add_argument(
        "--home",
        default=env.get("POD_NAMESPACE", "isvc-system"),
        help="the operator's own namespace, where the ConfigMap of certificates is [POD_NAMESPACE]",
    )
    parser.add_argument(
        "--health-port",
        type=int,
        default=env.get("HEALTH_PORT"),
        help="answer GET /healthz on this port [HEALTH_PORT]",
    )
    parser.add_argument(
        "--parallel", type=int, default=env.get("PARALLEL", "8"), help="reconciles at a time [PARALLEL]"
    )
    parser.add_argument(
        "--log-level", type=_level, default=env.get("LOG_LEVEL", "INFO"), help="DEBUG to CRITICAL [LOG_LEVEL]"
    )
    parser.set_defaults(run=run_command)


def _level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise argparse.ArgumentTypeError(f"{text!r} is no level; give DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


def run_command(arguments: argparse.Namespace) -> None:
    """Run the operator until it is stopped."""
    # kopf and the Kubernetes client take a second to import, which the other commands need not pay.
    from isvc_operator.handlers.operator import OperatorOptions, run

    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=arguments.log_level, handlers=[handler])
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # a line for every event of every object
    options = OperatorOptions(
        kubeconfig=arguments.kubeconfig,
        namespaces=tuple(arguments.namespace),
        config_dir=arguments.config_dir,
        health_port=arguments.health_port,
        parallel=arguments.parallel,
        home=arguments.home,
    )
    asyncio.run(run(options, lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))
