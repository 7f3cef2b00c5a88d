"""``python -m isvc_operator``, also ``isvc operator``: run the operator.

Only this module reads the operator's arguments and environment variables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from isvc_operator.errors import OperatorError
from isvc_operator.text import one_line, visible

_FAILED, _INVALID = 1, 2  # exit codes: of the cluster, or of an argument or a setting

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "WARN", "FATAL", "NOTSET")
# Of Python's garbage collector, which finds next to nothing: objects until it looks through the newest ones, and
# collections until it looks through all of them, which takes 0.3 s with 5,000 services. Python's own are 700, 10, 10.
_COLLECTIONS = 10_000, 10, 100


class _Namespaces(click.ParamType[str]):
    """A name; the variable has several, with commas between them."""

    name = "name"

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [name for name in rv.split(",") if name]


def main(argv: Sequence[str]) -> int:
    """Run the operator and return the exit code; an error is one line on stderr that says what to do."""
    from isvc_operator.kube.errors import KubeError
    from isvc_operator.kube.informer.watching import OlderState

    try:
        return command.main(argv, "isvc operator", standalone_mode=False) or 0
    except click.UsageError as error:
        return _fail(f"{one_line(error.format_message())} See: isvc operator --help", _INVALID)
    except OperatorError as error:
        return _fail(str(error), _FAILED if isinstance(error, (KubeError, OlderState)) else _INVALID)
    except OSError as error:
        return _fail(one_line(str(error)), _FAILED)


def _fail(message: str, exit_code: int) -> int:
    sys.stderr.write(f"isvc: {visible(message)}\n")
    return exit_code


@click.command(short_help="watch a cluster and serve its InferenceServices")
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    metavar="FILE",
    help="credentials [KUBECONFIG]; default: the pod's service account",
)
@click.option(
    "--namespace",
    multiple=True,
    type=_Namespaces(),
    envvar="WATCH_NAMESPACES",
    metavar="NAME",
    help="watch only this namespace; may be repeated [WATCH_NAMESPACES, comma-separated]",
)
@click.option(
    "--config-dir",
    type=click.Path(path_type=Path),
    envvar="CONFIG_DIR",
    metavar="DIR",
    help="folder with the keys of inferenceservice-config as files [CONFIG_DIR]",
)
@click.option(
    "--home",
    envvar="POD_NAMESPACE",
    default="isvc-system",
    metavar="NAME",
    help="the operator's own namespace, with the ConfigMap of certificates [POD_NAMESPACE]",
)
@click.option(
    "--health-port",
    type=int,
    envvar="HEALTH_PORT",
    metavar="PORT",
    help="serve GET /healthz, /readyz and /metrics on this port [HEALTH_PORT]",
)
@click.option(
    "--parallel",
    type=int,
    envvar="PARALLEL",
    default=8,
    metavar="NUMBER",
    help="number of concurrent reconciles [PARALLEL]",
)
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value=True,
    envvar="LEADER_ELECT",
    default=False,
    metavar="[true|false]",
    help="reconcile only while this replica holds the Lease isvc-operator in the operator's own namespace; needed for "
    "more than one [LEADER_ELECT: true or false]",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    envvar="LOG_LEVEL",
    default="INFO",
    metavar="LEVEL",
    help="DEBUG to CRITICAL [LOG_LEVEL]",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    envvar="LOG_FORMAT",
    default="text",
    help="text or json [LOG_FORMAT]",
)
@click.option(
    "--traces",
    type=click.Choice(("none", "otlp")),
    envvar="TRACES",
    default="none",
    help="none, or otlp: send a trace of each reconcile to a collector, which OpenTelemetry's own variables name "
    "[TRACES]",
)
def command(
    *,
    kubeconfig: str | None,
    namespace: tuple[str, ...],
    config_dir: Path | None,
    home: str,
    health_port: int | None,
    parallel: int,
    leader_elect: bool,
    log_level: str,
    log_format: str,
    traces: str,
) -> None:
    """Watch a cluster and serve its InferenceServices, until it is stopped."""
    import asyncio
    import gc
    import logging
    import secrets
    import socket
    from contextlib import nullcontext

    from isvc_operator.handlers.operator import run
    from isvc_operator.handlers.running import OperatorOptions
    from isvc_operator.kube.informer.kopf_settings import is_news
    from isvc_operator.telemetry.logs import FORMATTERS
    from isvc_operator.telemetry.tracing import NoTracer, otlp_tracer

    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[log_format]())
    handler.addFilter(is_news)
    logging.basicConfig(level=log_level, handlers=[handler])
    if log_level != "DEBUG":
        logging.getLogger("kopf").setLevel(logging.WARNING)
    options = OperatorOptions(
        kubeconfig=kubeconfig,
        namespaces=namespace,
        config_dir=config_dir,
        health_port=health_port,
        parallel=parallel,
        home=home,
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}" if leader_elect else "",
    )
    gc.set_threshold(*_COLLECTIONS)
    with otlp_tracer() if traces == "otlp" else nullcontext(NoTracer()) as tracer:
        asyncio.run(run(options, tracer))
