"""`python -m torchserve_adapter`: flags and environment → one service; errors → exit code and termination message.

The only module that reads the environment.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import uvloop

from torchserve_adapter.launch import prepare
from torchserve_adapter.ports import LoopbackPorts
from torchserve_adapter.rules import Surroundings, effective
from torchserve_adapter.supervisor import Service, supervise
from transformer_sdk.model_store import properties
from transformer_sdk.model_store.archives import read_store
from transformer_sdk.model_store.errors import ConfigurationError, StartError
from transformer_sdk.model_store.models import requested_models
from transformer_sdk.server.run import listen

log = logging.getLogger("torchserve_adapter")

_GRPC_V2_PORT = 8081
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; what ended the adapter is on stderr and in the termination log."""
    options = build_parser(os.environ).parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    try:
        run(options, os.environ)
    except StartError as error:
        return _fail(options.termination_log, str(error), error.exit_code)
    except Exception as error:
        log.exception("unexpected error")
        return _fail(options.termination_log, f"{type(error).__name__}: {error}", StartError.exit_code)
    return 0


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Serves until a signal; raises StartError."""
    reserved = {options.http_port, _GRPC_V2_PORT}
    with _listen(options.host, options.http_port) as listener, LoopbackPorts(reserved) as ports:
        service = _configure(options, environment, ports)
        uvloop.run(supervise(service, prepare(options.work_dir, service.properties, environment), listener))


def _configure(options: argparse.Namespace, environment: Mapping[str, str], ports: LoopbackPorts) -> Service:
    path = options.model_dir / "config" / "config.properties"
    around = Surroundings(
        model_dir=options.model_dir,
        environment=environment,
        is_directory=Path.is_dir,
        port_for=ports.take,
        memory_bytes=_memory_limit(),
        max_request_size=options.max_request_size,
    )
    draft = effective(properties.parse(_read_configuration(path), str(path)), around)
    for change in draft.changes:
        log.info("config.properties: %s", change)
    store = Path(draft.properties["model_store"])
    models = requested_models(draft.properties, read_store(store), str(store))
    log.info("serving %s", ", ".join(f"{model.name} ({model.archive})" for model in models))
    return Service(draft.properties, models, options.service_name, options.request_timeout, options.grace_period)


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The flags, with their defaults from `environment`."""
    parser = argparse.ArgumentParser(
        prog="python -m torchserve_adapter",
        description="Serve the archives of a model directory with TorchServe behind the v1 protocol.",
        epilog="Exit codes: 0 stopped, 2 wrong flags, 3 wrong configuration, 4 a model failed, 5 TorchServe died.",
    )

    def flag(name: str, kind: Callable[[str], object], default: object, text: str, variable: str | None = None) -> None:
        variable = variable or name.removeprefix("--").replace("-", "_").upper()
        value = environment.get(variable, default)
        parser.add_argument(name, type=kind, default=value, required=value is None and name == "--model-dir",
                            help=f"{text} (env {variable}, default {default})")  # fmt: skip

    flag("--model-dir", _absolute, None, "folder with config/config.properties and model-store/")
    flag("--host", str, "0.0.0.0", "the address to serve on; 127.0.0.1 is for this machine alone", "HTTP_HOST")
    flag("--http-port", int, 8080, "the port to serve on")
    flag("--service-name", str, None, "another name for the model where one is served", "INFERENCE_SERVICE_NAME")
    flag("--max-request-size", int, None, "largest request body in bytes; else max_request_size of config.properties")
    flag("--request-timeout", float, 600.0, "seconds until a prediction is answered with 504")
    flag("--grace-period", int, 30, "seconds that requests under way have to finish after SIGTERM")
    flag("--work-dir", _absolute, Path(tempfile.gettempdir()) / "torchserve", "writable folder for TorchServe's files")
    flag("--termination-log", Path, Path("/dev/termination-log"), "file for the one-line reason of a failure")
    return parser


def _absolute(folder: str) -> Path:
    """TorchServe has another working directory than the adapter."""
    return Path(folder).absolute()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise StartError(
            f"Port {port} cannot be opened: {error.strerror}; "
            "stop what uses it or choose another with --http-port or --host."
        ) from error


def _read_configuration(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}). "
            "Put config/config.properties into the storage, next to model-store/."
        ) from error


def _memory_limit() -> int | None:
    """Of this container; None where there is none."""
    limit = _MEMORY_LIMIT.read_text().strip() if _MEMORY_LIMIT.is_file() else "max"
    return None if limit == "max" else int(limit)


def _fail(termination_log: Path, reason: str, exit_code: int) -> int:
    line = " ".join(reason.split())
    sys.stderr.write(f"{line}\n")
    try:
        termination_log.write_text(line)
    except OSError as error:
        log.debug("no termination log: %s", error)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
