"""``isvc operator``, also ``python -m isvc_operator``: run the operator."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import socket
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from isvc_operator.cli.log_format import FORMATTERS


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
        help="serve GET /healthz, /readyz and /metrics on this port [HEALTH_PORT]",
    )
    parser.add_argument(
        "--parallel", type=int, default=env.get("PARALLEL", "8"), help="number of concurrent reconciles [PARALLEL]"
    )
    parser.add_argument(
        "--leader-elect",
        type=_true_or_false,
        nargs="?",
        const=True,
        default=env.get("LEADER_ELECT", "false"),
        help="reconcile only while this replica holds the Lease isvc-operator in the operator's own namespace; needed "
        "for more than one [LEADER_ELECT: true or false]",
    )
    parser.add_argument(
        "--log-level", type=_level, default=env.get("LOG_LEVEL", "INFO"), help="DEBUG to CRITICAL [LOG_LEVEL]"
    )
    parser.add_argument(
        "--log-format", type=_log_format, default=env.get("LOG_FORMAT", "text"), help="text or json [LOG_FORMAT]"
    )
    parser.add_argument(
        "--traces",
        type=_traces,
        default=env.get("TRACES", "none"),
        help="none, or otlp: send a trace of each reconcile to a collector, which OpenTelemetry's own variables name "
        "[TRACES]",
    )
    parser.set_defaults(run=run_command)


def _level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise argparse.ArgumentTypeError(f"{text!r} is not a log level; use DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


def _true_or_false(text: str) -> bool:
    return _one_of(text.lower(), ("true", "false"), what="a way to elect a leader") == "true"


def _log_format(text: str) -> str:
    return _one_of(text, FORMATTERS, what="a log format")


def _traces(text: str) -> str:
    return _one_of(text, ("none", "otlp"), what="a way to send traces")


def _one_of(text: str, known: Collection[str], *, what: str) -> str:
    """Return the text; unlike ``choices``, this also checks what an environment variable gives."""
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}; use {' or '.join(known)}")
    return text


def run_command(arguments: argparse.Namespace) -> None:
    """Run the operator until it is stopped."""
    # Importing the Kubernetes client takes a second, which the other commands do not need.
    from isvc_operator.handlers.operator import OperatorOptions, run
    from isvc_operator.telemetry.tracing import NoTracer, otlp_tracer

    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[arguments.log_format]())
    logging.basicConfig(level=arguments.log_level, handlers=[handler])
    options = OperatorOptions(
        kubeconfig=arguments.kubeconfig,
        namespaces=tuple(arguments.namespace),
        config_dir=arguments.config_dir,
        health_port=arguments.health_port,
        parallel=arguments.parallel,
        home=arguments.home,
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}" if arguments.leader_elect else "",
    )
    with otlp_tracer() if arguments.traces == "otlp" else nullcontext(NoTracer()) as tracer:
        asyncio.run(run(options, lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), tracer))
