"""The flags of model servers: KServe's, by the same names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from data_plane.limits import KEEP_ALIVE, MAX_CONNECTIONS
from transformer_sdk.kserve.constants.constants import (
    DEFAULT_GRPC_PORT,
    DEFAULT_HTTP_PORT,
    KSERVE_TLS_CERT_FILE_ENV,
    KSERVE_TLS_KEY_FILE_ENV,
    MAX_GRPC_MESSAGE_LENGTH,
    PredictorProtocol,
)
from transformer_sdk.kserve.predictor_config import PredictorConfig

MAX_REQUEST_SIZE = 100 * 1024 * 1024

_PROTOCOLS = [protocol.value for protocol in PredictorProtocol]
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def strtobool(val: str) -> bool:
    """Raise ValueError for what is neither true nor false."""
    word = val.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"invalid truth value {val!r}")
    return word in _TRUE


def build_parser() -> argparse.ArgumentParser:
    """To be a parent of the user's own parser."""
    parser = argparse.ArgumentParser(add_help=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    _add_server_flags(parser)
    _add_predictor_flags(parser)
    return parser


def predictor_config(args: argparse.Namespace) -> PredictorConfig:
    """Return the configuration of the predictor from the flags."""
    return PredictorConfig(
        predictor_host=args.predictor_host,
        predictor_protocol=args.predictor_protocol,
        predictor_use_ssl=args.predictor_use_ssl,
        predictor_request_timeout_seconds=args.predictor_request_timeout_seconds,
        predictor_request_retries=args.predictor_request_retries,
        predictor_health_check=args.enable_predictor_health_check,
    )


class _Protocol(argparse.Action):
    """Programs read it by either name, and may have been given the other one."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, *__: object) -> None:
        namespace.protocol = namespace.predictor_protocol = values


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    def flag(name: str, kind: Callable[[str], Any], default: Any, text: str, **more: Any) -> None:
        parser.add_argument(name, type=kind, default=default, help=text, **more)

    flag("--http_port", int, DEFAULT_HTTP_PORT, "The port to serve HTTP on.")
    flag("--grpc_port", int, DEFAULT_GRPC_PORT, "The port to serve gRPC on.")
    flag("--workers", int, 1, "Processes that answer HTTP; the first also answers gRPC.")
    flag("--max_threads", int, 4, "Threads of sync hooks, each for one at a time; with 0 they run on the event loop.")
    flag("--max_asyncio_workers", int, None, "Threads of asyncio.to_thread, for hooks that use it.")
    flag("--enable_grpc", strtobool, True, "Serve gRPC, where grpcio is installed.")
    flag("--enable_docs_url", strtobool, False, "Taken for KServe's sake: there is no Swagger page.")
    flag("--enable_latency_logging", strtobool, False, "Log the times of the hooks of each request.")
    flag("--configure_logging", strtobool, True, "Set up logging, if nobody has.")
    flag("--log_config_file", str, None, "Set up logging from this .json, .yaml or .ini file.")
    flag("--access_log_format", str, None, "Taken for KServe's sake: requests are counted in /metrics, not logged.")
    flag("--event-loop", str, "auto", "auto is uvloop, if installed.", dest="event_loop",
         choices=["auto", "asyncio", "uvloop"])  # fmt: skip
    flag("--timeout-keep-alive", int, KEEP_ALIVE, "Seconds that an idle connection is kept: longer than proxies do.",
         dest="timeout_keep_alive")  # fmt: skip
    flag("--max_request_size", int, MAX_REQUEST_SIZE, "Largest request body in bytes.")
    flag(
        "--max_buffered_bytes", int, None, "Most bytes of requests at a time; else a quarter of the container's memory."
    )
    flag("--max_connections", int, MAX_CONNECTIONS, "Most connections over HTTP of a process.")
    flag("--grpc_max_send_message_length", int, MAX_GRPC_MESSAGE_LENGTH, "Largest answer over gRPC in bytes.")
    flag("--grpc_max_receive_message_length", int, MAX_GRPC_MESSAGE_LENGTH, "Largest request over gRPC in bytes.")
    flag("--ssl_certfile", str, os.environ.get(KSERVE_TLS_CERT_FILE_ENV), "Certificate, to serve HTTPS.")
    flag("--ssl_keyfile", str, os.environ.get(KSERVE_TLS_KEY_FILE_ENV), "The certificate's key.")


def _add_predictor_flags(parser: argparse.ArgumentParser) -> None:
    def flag(name: str, kind: Callable[[str], Any], default: Any, text: str, **more: Any) -> None:
        parser.add_argument(name, type=kind, default=default, help=text, **more)

    flag("--model_name", str, "model", "The model's name in paths.")
    flag("--predictor_host", str, None, "HOST or HOST:PORT of the predictor.")
    for name, text in (
        ("--protocol", "Old name of --predictor_protocol."),
        ("--predictor_protocol", "How to speak with the predictor."),
    ):
        flag(name, str, PredictorProtocol.REST_V1.value, text, choices=_PROTOCOLS, action=_Protocol)
    flag("--predictor_use_ssl", strtobool, False, "Speak TLS with the predictor.")
    flag("--predictor_request_timeout_seconds", int, 600, "Seconds until a request to the predictor is given up.")
    flag("--predictor_request_retries", int, 0, "Further attempts to connect to the predictor, with a pause before.")
    parser.add_argument("--enable_predictor_health_check", action="store_true",
                        help="Be ready only while the predictor is.")  # fmt: skip
