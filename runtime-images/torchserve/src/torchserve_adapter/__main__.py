"""`python -m torchserve_adapter`: flags and environment → one service; errors → exit code and termination message.

The only module that reads the environment.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import uvloop

from data_plane.log_lines import configure_logging
from data_plane.model_server import container
from data_plane.model_server.errors import ConfigurationError, exit_code_of
from data_plane.model_server.life import Listeners, open_port
from data_plane.model_server.options import FlagParser, absolute, add_common_flags
from data_plane.model_server.work_dir import claimed
from data_plane.server.run import listen
from model_archive.configuration import CONFIG
from torchserve_adapter.archive_settings import read_settings
from torchserve_adapter.batching import BatchRequirements, set_batch_sizes
from torchserve_adapter.launch import prepare
from torchserve_adapter.ports import LoopbackPorts
from torchserve_adapter.rules import (
    LOOPBACK,
    TorchServeInputs,
    as_written,
    check_names,
    effective,
    management_port,
)
from torchserve_adapter.supervisor import ServedModels, supervise
from torchserve_compat.store import notices, properties
from torchserve_compat.store.archives import Archive, read_store
from torchserve_compat.store.flags import add_torchserve_flags, settings_of
from torchserve_compat.store.known_settings import Runtime
from torchserve_compat.store.models import RequestedModel, requested_models, select
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.rules import max_request_size
from torchserve_compat.store.settings import BatchOptions, cors_headers, sequence_limits
from torchserve_compat.store.versions import default_first, without_effect

log = logging.getLogger("torchserve_adapter")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the adapter; return its exit code. The reason for its end goes to stderr and the termination log."""
    options = build_parser(os.environ).parse_args(arguments)
    configure_logging(options.log_level)
    return exit_code_of(lambda: run(options, os.environ), options.termination_log)


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Serve until a signal; raises StartError."""
    reserved = {options.http_port, options.grpc_port}
    with (
        open_port(options.host, options.http_port) as listener,
        LoopbackPorts(reserved) as ports,
        claimed(options.work_dir),
    ):
        inputs = TorchServeInputs(
            model_dir=options.model_dir,
            environment=environment,
            is_directory=Path.is_dir,
            port_for=ports.take,
            memory_bytes=container.memory_limit(),
            max_request_size=options.max_request_size,
            flags=settings_of(options),
        )
        path = options.model_dir / CONFIG
        given = properties.parse(_read_configuration(path), str(path))
        written = as_written(given, inputs)
        with _open_management(written, ports) as management:
            wanted = _configure(options, given, written, inputs)
            launch = prepare(
                options.work_dir,
                wanted.properties,
                environment,
                processor_limit=container.processor_limit(),
                batch_sizes=wanted.batch_sizes,
                package_cache=options.package_cache,
            )
            listeners = Listeners.of(
                options, listener, max_request_size=max_request_size(written), cors=cors_headers(written)
            )
            uvloop.run(supervise(wanted, launch, listeners, management))


def _open_management(
    written: Mapping[str, str], ports: LoopbackPorts
) -> AbstractContextManager[socket.socket] | AbstractContextManager[None]:
    """Open the configured port of the management API, before TorchServe's own moves to another port."""
    if (wanted := management_port(written)) is None:
        return nullcontext()
    port = ports.take(wanted)
    log.info("models can be registered at http://%s:%d (enable_model_api)", LOOPBACK, port)
    return listen(LOOPBACK, port)


def _configure(
    options: argparse.Namespace, given: Mapping[str, str], written: Mapping[str, str], inputs: TorchServeInputs
) -> ServedModels:
    said = notices.of_properties(Runtime.TORCHSERVE, written)
    draft = effective(given, inputs)
    _check_metrics_file(draft)
    store = Path(draft.properties["model_store"])
    archives = read_store(store)
    missing = _leave_out_missing(draft, archives)
    models = requested_models(draft.properties, archives, str(store))
    check_names(model.name for model in models)
    files = (file for model in models for file in model.archive.split(", ") if file in archives)
    settings = {file: read_settings(store / file) for file in dict.fromkeys(files)}
    batching = BatchOptions(options.max_batch_size, options.max_latency, options.batch_timeout)
    handlers = {file: archive.handler for file, archive in archives.items()}
    requirements = BatchRequirements(batching, written, settings, handlers)
    requirements.check()
    if "://" not in draft.get("load_models"):
        said += [f"config.properties: {notice}" for notice in without_effect(draft.properties, archives)]
    has_versions = any(", " in model.archive for model in models)
    if has_versions and "model_snapshot" not in draft.properties and "://" not in draft.get("load_models"):
        in_order = default_first(draft.properties, archives)
        draft.set("load_models", in_order, "TorchServe takes the version that it loads first for the default")
    for file, yaml in settings.items():
        said += notices.of_archive(Runtime.TORCHSERVE, file, yaml)
        sequence_limits(file, yaml, batch_size=1, workers=1)  # raises for what is not served
    set_batch_sizes(draft, archives, requirements)
    for change in draft.changes:
        log.info("config.properties: %s", change)
    for notice in said:
        log.warning("%s", notice)
    log.info("serving %s", ", ".join(f"{model.name} ({model.archive})" for model in models))
    return ServedModels(
        draft.properties,
        models,
        requirements,
        _batch_sizes(requirements, models, archives),
        missing,
        options.service_name,
    )


def _check_metrics_file(draft: Draft) -> None:
    """Raise ConfigurationError for a missing file, without which workers end in a way that does not say so."""
    file = draft.get("metrics_config")
    if file and not Path(file).is_file():
        raise ConfigurationError(
            f"metrics_config in config.properties names {file}, which is not a file; a relative path begins at the "
            "model directory. Correct it, or remove the line for TorchServe's own metrics."
        )


def _leave_out_missing(draft: Draft, archives: Mapping[str, Archive]) -> Mapping[str, str]:
    """Return the reason for each model in `load_models` that is not in the store."""
    if "model_snapshot" in draft.properties:
        return {}
    selection = select(draft.get("load_models"), archives, draft.properties["model_store"])
    draft.set("load_models", selection.load_models, "what is not there is not loaded")
    for model, why in selection.missing.items():
        log.warning("model %s %s", model, why)
    return selection.missing


def _batch_sizes(
    requirements: BatchRequirements, models: Iterable[RequestedModel], archives: Mapping[str, Archive]
) -> dict[str, dict[str, int]]:
    """Return the batch sizes for handlers, except for archives that TorchServe downloads itself."""
    sizes: dict[str, dict[str, int]] = {}
    for model in models:
        for archive in (archives[file] for file in model.archive.split(", ") if file in archives):
            size = requirements.stated_batch_size(model.name, archive.model_version, archive.file)
            sizes.setdefault(model.name, {})[archive.model_version] = size
    return sizes


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the flags; their defaults come from `environment`."""
    flags = FlagParser(
        prog="python -m torchserve_adapter",
        description="Serve the archives of a model directory with TorchServe behind the v1 and v2 protocols.",
        epilog="Exit codes: 0 stopped, 2 wrong flags, 3 wrong configuration, 4 a model failed, 5 TorchServe died.",
        environment=environment,
    )
    add_common_flags(flags, work_dir="torchserve")
    add_torchserve_flags(flags.parser)
    flags.flag("--package-cache", absolute, None, "folder in which the servers of a node keep what archives require")
    return flags.parser


def _read_configuration(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}). "
            "Put config/config.properties into the storage, next to model-store/."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
