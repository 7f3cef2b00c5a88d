"""`python -m mar_runtime`: flags and environment → one server; errors → exit code and termination message.

The only module that reads the environment.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvloop

from data_plane.health import Event
from data_plane.log_lines import configure_logging
from data_plane.model import Models
from data_plane.model_server import memory
from data_plane.model_server.container import processors
from data_plane.model_server.life import Listeners, exit_code_of, open_port
from data_plane.model_server.options import FlagParser, add_common_flags
from data_plane.model_server.serving import serve
from data_plane.model_server.work_dir import claimed
from data_plane.server.metrics import ServerMetrics
from mar_runtime.configuration import model_directory
from mar_runtime.configuration.settings import RuntimeSettings, ServingOptions
from mar_runtime.configuration.withheld import withheld_variables
from mar_runtime.metrics import definitions
from mar_runtime.metrics.exposition import HandlerMetrics
from mar_runtime.models.supervisor import ModelSupervisor
from mar_runtime.resources import gpus, threads
from torchserve_compat.store import rules
from torchserve_compat.store.flags import add_torchserve_flags, settings_of
from torchserve_compat.store.settings import BatchOptions, cors_headers, whole

log = logging.getLogger("mar_runtime")

# Defaults for the libraries that models use; variables that are already set win.
_SETTINGS = {
    **memory.ENVIRONMENT,
    # Otherwise, torch's waiting threads would spin on processors that the server needs.
    "OMP_WAIT_POLICY": "PASSIVE",
    # torch warns about nvgpu's use of pynvml, which users cannot change.
    "PYTHONWARNINGS": "ignore:The pynvml package is deprecated:FutureWarning",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; return its exit code. The reason for its end goes to stderr and the termination log."""
    options = build_parser(os.environ).parse_args(arguments)
    configure_logging()
    if memory.ENVIRONMENT.keys().isdisjoint(os.environ):
        memory.keep_freed_memory()
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    return exit_code_of(lambda: run(options), options.termination_log)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal; raises StartError."""
    with open_port(options.host, options.http_port) as listener, claimed(options.work_dir):
        inputs = rules.RuleInputs(
            options.model_dir, os.environ, Path.is_dir, options.max_request_size, settings_of(options)
        )
        found = model_directory.read(inputs, options.service_name)
        listeners = Listeners.of(
            options, listener, max_request_size=found.max_request_size, cors=cors_headers(found.properties)
        )
        uvloop.run(_run(options, inputs, found, listeners))


async def _run(
    options: argparse.Namespace, inputs: rules.RuleInputs, found: model_directory.ModelDirectory, listeners: Listeners
) -> None:
    names = dict.fromkeys(request.name for request in found.models)
    log.info("serving %s", ", ".join(names))
    models, metrics, handler_metrics = Models(names, options.service_name), ServerMetrics(), HandlerMetrics()
    for name, why in found.missing.items():
        models.record(name, Event.FAIL, why)
    batching = BatchOptions(options.max_batch_size, options.max_latency, options.batch_timeout)
    settings = RuntimeSettings(
        work_dir=options.work_dir,
        processors=processors(),
        threads=threads(os.environ),
        gpus=gpus(whole(found.properties, "number_of_gpu"), os.environ),
        cuda=gpus(None, os.environ) > 0,
        metrics=definitions.find(found.properties, options.model_dir),
        withheld=withheld_variables(found.properties, os.environ),
        properties=found.properties,
        options=ServingOptions(batching, options.worker_max_requests, options.worker_max_memory),
    )
    supervisor = ModelSupervisor(
        models, settings, lambda: model_directory.read(inputs, options.service_name).loadable,
        metrics=metrics, handler_metrics=handler_metrics,
    )  # fmt: skip
    if rules.has_model_api(found.properties):
        models.repository = supervisor
    listeners.budget.drop_gone = supervisor.drop_gone
    try:
        await serve(
            listeners,
            models,
            metrics,
            must_not_end=[supervisor.run(found.models)],
            more_metrics=handler_metrics.exposition,
        )
    finally:
        await supervisor.close()


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the flags; their defaults come from `environment`."""
    flags = FlagParser(
        "python -m mar_runtime",
        "Serve .mar archives and model files by the v1, v2 and gRPC protocols, without Java.",
        "Exit codes: 0 stopped, 1 unexpected, 2 wrong flags, 3 wrong configuration, 4 a model failed.",
        environment,
    )
    add_common_flags(flags, "mar")
    add_torchserve_flags(flags.parser)
    flags.flag("--worker-max-requests", int, 0, "batches after which a worker process is replaced; 0 for never")
    flags.flag("--worker-max-memory", int, 0, "MiB of memory above which a worker process is replaced; 0 for never")
    return flags.parser
