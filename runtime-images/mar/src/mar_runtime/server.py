"""One server: what the model directory holds, served until a signal."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from pathlib import Path

import uvloop

from data_plane.health import State
from data_plane.model import Models
from data_plane.model_server.container import processors
from data_plane.model_server.life import Listeners, open_port
from data_plane.model_server.serving import serve
from data_plane.model_server.work_dir import claimed
from data_plane.server.metrics import ServerMetrics
from mar_runtime.configuration import model_directory
from mar_runtime.configuration.settings import RuntimeSettings, ServingOptions
from mar_runtime.configuration.withheld import withheld_variables
from mar_runtime.metrics import definitions
from mar_runtime.metrics.exposition import HandlerMetrics
from mar_runtime.metrics.start import StartTimes
from mar_runtime.models.supervisor import ModelSupervisor
from mar_runtime.resources import gpus, threads
from torchserve_compat.packages.cache import PackageCache
from torchserve_compat.packages.installation import Installer
from torchserve_compat.store import rules
from torchserve_compat.store.flags import settings_of
from torchserve_compat.store.settings import BatchOptions, cors_headers, whole

log = logging.getLogger("mar_runtime")


def run(options: argparse.Namespace, environment: Mapping[str, str], began: float) -> None:
    """Serve until a signal; raises StartError. `began` is when the process did, on time.monotonic()'s clock."""
    with open_port(options.host, options.http_port) as listener, claimed(options.work_dir):
        inputs = rules.RuleInputs(
            options.model_dir, environment, Path.is_dir, options.max_request_size, settings_of(options)
        )
        found = model_directory.read(inputs, options.service_name)
        listeners = Listeners.of(
            options, listener, max_request_size=found.max_request_size, cors=cors_headers(found.properties)
        )
        uvloop.run(_run(options, inputs, found, listeners, began=began))


async def _run(
    options: argparse.Namespace,
    inputs: rules.RuleInputs,
    found: model_directory.ModelDirectory,
    listeners: Listeners,
    *,
    began: float,
) -> None:
    environment = inputs.environment
    names = dict.fromkeys(request.name for request in found.models)
    log.info("serving %s", ", ".join(names))
    models, metrics, handler_metrics = Models(names, options.service_name), ServerMetrics(), HandlerMetrics()
    times = StartTimes(metrics.registry, began)
    times.end("imports")
    for name, why in found.missing.items():
        models.record(name, State.FAILED, why)
    batching = BatchOptions(options.max_batch_size, options.max_latency, options.batch_timeout)
    withheld = withheld_variables(found.properties, environment)
    settings = RuntimeSettings(
        work_dir=options.work_dir,
        processors=processors(),
        threads=threads(environment),
        gpus=gpus(whole(found.properties, "number_of_gpu"), environment),
        cuda=gpus(None, environment) > 0,
        metrics=definitions.find(found.properties, options.model_dir),
        withheld=withheld,
        installer=Installer(PackageCache(options.package_cache) if options.package_cache else None, withheld=withheld),
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
            must_not_end=[supervisor.run(found.models, times)],
            more_metrics=handler_metrics.exposition,
        )
    finally:
        await supervisor.close()
