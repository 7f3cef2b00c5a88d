"""Command-line flags of all model servers; each can also be set by an environment variable."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from data_plane.limits import DEFAULT_MAX_BATCH_SIZE, MAX_CONNECTIONS, MAX_REQUEST_SIZE
from data_plane.log_lines import LEVELS
from data_plane.ports import GRPC_PORT, HTTP_PORT


class FlagParser:
    def __init__(self, prog: str, description: str, epilog: str, environment: Mapping[str, str]) -> None:
        self.parser = argparse.ArgumentParser(prog=prog, description=description, epilog=epilog)
        self._environment = environment

    def flag(
        self,
        name: str,
        kind: Callable[[str], object],
        default: object,
        text: str,
        *,
        variable: str | None = None,
        required: bool = False,
    ) -> None:
        """Add a flag; its environment variable is its name in capitals unless `variable` is given."""
        variable = variable or name.removeprefix("--").replace("-", "_").upper()
        value = self._environment.get(variable) or default
        self.parser.add_argument(
            name, type=kind, default=value, required=required and value is None,
            help=f"{text} (env {variable}, default {default})",
        )  # fmt: skip


def add_common_flags(flags: FlagParser, work_dir: str) -> None:
    """Add the flags of all model servers; `work_dir` is the prefix of a folder's name in the temporary folder."""
    flag = flags.flag
    flag("--model-dir", absolute, None, "folder with the models", required=True)
    flag("--host", str, "0.0.0.0", "the address to serve on; 127.0.0.1 is for this machine alone", variable="HTTP_HOST")
    flag("--http-port", port, HTTP_PORT, "the port to serve HTTP on")
    flag("--grpc-port", port, GRPC_PORT, "the port to serve gRPC on; 0 for none")
    flag(
        "--service-name", str, None, "another name for the model where one is served", variable="INFERENCE_SERVICE_NAME"
    )
    flag(
        "--max-request-size",
        request_size,
        None,
        "largest request body in bytes; else max_request_size of config.properties",
    )
    flag(
        "--max-buffered-bytes",
        positive,
        None,
        "most bytes of requests that are held at a time, be they read, queued or answered; else a quarter of the "
        "container's memory",
    )
    flag("--max-connections", positive, MAX_CONNECTIONS, "most connections over HTTP; less where files are short")
    flag(
        "--tls-dir",
        absolute,
        None,
        "folder with tls.crt and tls.key, such as a mounted Secret of type kubernetes.io/tls: HTTPS and gRPC over TLS "
        "are served, and a renewed certificate is used at once",
    )
    flag("--request-timeout", seconds, 600.0, "seconds until a request is answered with 504")
    flag("--max-batch-size", positive, None,
         f"most instances in a batch; else batchSize of config.properties, else {DEFAULT_MAX_BATCH_SIZE}")  # fmt: skip
    flag("--max-latency", positive, None, "milliseconds that a batch may be expected to take; smaller batches if more")
    flag(
        "--batch-timeout", positive, None, "milliseconds until a request that is queued or running is answered with 504"
    )
    flag("--grace-period", int, 30, "seconds that requests under way have to finish after SIGTERM")
    own = Path(tempfile.gettempdir()) / f"{work_dir}-{os.geteuid()}"  # users of one machine share the temporary folder
    flag("--work-dir", absolute, own, "folder for the server's files, which nobody else may write to")
    flag(
        "--log-level", level, "INFO", "least level of what is logged, such as WARNING; tracebacks are whole with DEBUG",
        variable="SERVER_LOG_LEVEL",
    )  # fmt: skip
    flag("--termination-log", Path, Path("/dev/termination-log"), "file for the one-line reason of a failure")


def absolute(folder: str) -> Path:
    """Parse a path and make it absolute, as child processes have other working directories."""
    return Path(folder).absolute()


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def level(text: str) -> str:
    if (name := text.upper()) not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(LEVELS)}")
    return name


def request_size(text: str) -> int:
    """Parse the largest size of a request in bytes, which gRPC bounds as well."""
    if not 1 <= (number := int(text)) <= MAX_REQUEST_SIZE:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to {MAX_REQUEST_SIZE}")
    return number


def seconds(text: str) -> float:
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0")
    return number


def port(text: str) -> int:
    if not 0 <= (number := int(text)) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return number
