"""``isvc operator``, also ``python -m isvc_operator``: run the operator."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from isvc_operator.cli.log_format import LogFormatter


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command; each flag defaults to an environment variable."""
    parser = commands.add_parser("operator", help="watch a cluster and serve its InferenceServices")
    add_flags(parser, env)


def add_flags(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Add the operator's flags."""
    parser.add_argument(
        "--kubeconfig",
        default=env.get("KUBECONFIG"),
        help="credentials [KUBECONFIG]; default: the pod's service account",
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
        help="the operator's own namespace, with the ConfigMap of certificates [POD_NAMESPACE]",
    )
    parser.add_argument(
        "--health-port",
        type=int,
        default=env.get("HEALTH_PORT"),
        help="serve GET /healthz on this port [HEALTH_PORT]",
    )
    parser.add_argument(
        "--parallel", type=int, default=env.get("PARALLEL", "8"), help="number of concurrent reconciles [PARALLEL]"
    )
    parser.add_argument(
        "--log-level", type=_level, default=env.get("LOG_LEVEL", "INFO"), help="DEBUG to CRITICAL [LOG_LEVEL]"
    )
    parser.set_defaults(run=run_command)


def _level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise argparse.ArgumentTypeError(f"{text!r} is not a log level; use DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


def run_command(arguments: argparse.Namespace) -> None:
    """Run the operator until it is stopped."""
    # Importing kopf and the Kubernetes client takes a second, which the other commands do not need.
    from isvc_operator.handlers.operator import OperatorOptions, run

    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=arguments.log_level, handlers=[handler])
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # logs a line for every event of every object
    options = OperatorOptions(
        kubeconfig=arguments.kubeconfig,
        namespaces=tuple(arguments.namespace),
        config_dir=arguments.config_dir,
        health_port=arguments.health_port,
        parallel=arguments.parallel,
        home=arguments.home,
    )
    asyncio.run(run(options, lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))
