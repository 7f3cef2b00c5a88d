"""The command-line flags of model servers, with KServe's names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from data_plane.limits import KEEP_ALIVE, MAX_CONNECTIONS, MAX_SDK_REQUEST
from data_plane.model_server.options import request_size
from data_plane.ports import GRPC_PORT, HTTP_PORT
from transformer_sdk.kserve.constants.constants import (
    KSERVE_TLS_CERT_FILE_ENV,
    KSERVE_TLS_KEY_FILE_ENV,
    MAX_GRPC_MESSAGE_LENGTH,
    PredictorProtocol,
)
from transformer_sdk.kserve.predictor_config import PredictorConfig

_PROTOCOLS = [protocol.value for protocol in PredictorProtocol]
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def strtobool(val: str) -> bool:
    """Return the truth value of a text; raises ValueError if it has none."""
    word = val.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"invalid truth value {val!r}")
    return word in _TRUE


def build_parser() -> argparse.ArgumentParser:
    """Return a parser that can be a parent of the user's own."""
    parser = argparse.ArgumentParser(add_help=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter)

    def flag(name: str, kind: Callable[[str], Any], default: Any, text: str, **more: Any) -> None:
        parser.add_argument(name, type=kind, default=default, help=text, **more)

    _add_server_flags(flag)
    _add_predictor_flags(flag)
    parser.add_argument("--enable_predictor_health_check", action="store_true",
                        help="Be ready only while the predictor is ready.")  # fmt: skip
    return parser


def default_grace_period() -> int:
    """Return the seconds that requests have after SIGTERM: 30, or what the operator derives from a timeout.

    Raises ValueError for a variable that is not a whole number.
    """
    return int(os.environ.get("GRACE_PERIOD", "30"))


def predictor_config(args: argparse.Namespace) -> PredictorConfig:
    return PredictorConfig(
        predictor_host=args.predictor_host,
        predictor_protocol=args.predictor_protocol,
        predictor_use_ssl=args.predictor_use_ssl,
        predictor_request_timeout_seconds=args.predictor_request_timeout_seconds,
        predictor_request_retries=args.predictor_request_retries,
        predictor_health_check=args.enable_predictor_health_check,
    )


class _Protocol(argparse.Action):
    """Set both names of the flag: programs may read another name than the one on the command line."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, *__: object) -> None:
        namespace.protocol = namespace.predictor_protocol = values


def _add_server_flags(flag: Callable[..., None]) -> None:
    flag("--http_port", int, HTTP_PORT, "The port to serve HTTP on.")
    flag("--grpc_port", int, GRPC_PORT, "The port to serve gRPC on.")
    flag("--workers", int, 1, "Processes that serve HTTP; the first also serves gRPC.")
    flag("--max_threads", int, 4, "Threads for sync hooks, one hook in each; with 0 they run on the event loop.")
    flag("--max_asyncio_workers", int, None, "Threads for asyncio.to_thread, for hooks that use it.")
    flag("--enable_grpc", strtobool, True, "Serve gRPC, if grpcio is installed.")
    flag(
        "--enable_model_api", strtobool, False, "Load and unload models at POST /v2/repository/models, in the pod only."
    )
    flag("--enable_docs_url", strtobool, False, "Accepted for compatibility with KServe: /docs is always served.")
    flag("--enable_latency_logging", strtobool, False, "Log the duration of each hook for every request.")
    flag("--configure_logging", strtobool, True, "Configure logging, unless it is configured already.")
    flag("--log_config_file", str, None, "Configure logging from this .json, .yaml or .ini file.")
    flag(
        "--access_log_format",
        str,
        None,
        "Accepted for compatibility with KServe: requests are counted in /metrics, not logged.",
    )
    flag("--event-loop", str, "auto", "The event loop; auto is uvloop, if installed.", dest="event_loop",
         choices=["auto", "asyncio", "uvloop"])  # fmt: skip
    flag("--timeout-keep-alive", int, KEEP_ALIVE, "Seconds until an idle connection is closed: more than a proxy's.",
         dest="timeout_keep_alive")  # fmt: skip
    flag("--max_request_size", request_size, MAX_SDK_REQUEST, "The largest request body in bytes.")
    flag(
        "--max_buffered_bytes",
        int,
        None,
        "The bytes that all requests may hold together; default: a quarter of the container's memory.",
    )
    flag("--max_connections", int, MAX_CONNECTIONS, "The largest number of HTTP connections of a process.")
    flag("--grpc_max_send_message_length", int, MAX_GRPC_MESSAGE_LENGTH, "The largest gRPC response in bytes.")
    flag("--grpc_max_receive_message_length", int, MAX_GRPC_MESSAGE_LENGTH, "The largest gRPC request in bytes.")
    flag("--ssl_certfile", str, os.environ.get(KSERVE_TLS_CERT_FILE_ENV), "The certificate file, to serve HTTPS.")
    flag("--ssl_keyfile", str, os.environ.get(KSERVE_TLS_KEY_FILE_ENV), "The key file of the certificate.")


def _add_predictor_flags(flag: Callable[..., None]) -> None:
    flag("--model_name", str, "model", "The model's name in paths.")
    flag("--predictor_host", str, None, "HOST, HOST:PORT or HOST:PORT/PATH of the predictor.")
    for name, text in (
        ("--protocol", "The old name of --predictor_protocol."),
        ("--predictor_protocol", "The protocol of the predictor."),
    ):
        flag(name, str, PredictorProtocol.REST_V1.value, text, choices=_PROTOCOLS, action=_Protocol)
    flag("--predictor_use_ssl", strtobool, False, "Connect to the predictor by TLS.")
    flag("--predictor_request_timeout_seconds", int, 600, "The timeout of requests to the predictor in seconds.")
    flag("--predictor_request_retries", int, 0, "Further attempts to connect to the predictor, with back-off.")
