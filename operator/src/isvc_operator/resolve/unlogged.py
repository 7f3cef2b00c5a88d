"""What of a service's payload loggers has no effect: reported in a condition, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isvc_operator.api.components import LoggerSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_LOGGER_FRACTION, ANNOTATION_SETTINGS, CONTAINER_TRANSFORMER, PREDICTOR
from isvc_operator.config import LoggerConfig
from isvc_operator.resolve.components import ComponentSpec, settings_read, specified_components
from isvc_operator.resolve.logger import LOGGER, url_problem
from isvc_operator.resolve.runtime import ChosenRuntime


def unlogged_parts(service: InferenceService, chosen: ChosenRuntime | None, config: LoggerConfig) -> Iterator[str]:
    """Yield the parts of all loggers that have no effect; ``chosen`` is None with the user's own containers."""
    for kind, component in specified_components(service.spec):
        annotations = {**service.metadata.annotations, **(component.annotations or {})}
        runtime = chosen if kind == PREDICTOR else None
        if runtime:
            annotations = {**(runtime.runtime.spec.annotations or {}), **annotations}
        if component.logger:
            field = f"spec.{kind}.logger"
            yield from _unread(field, component, runtime)
            yield from _unsent(field, component.logger, config)
            yield from _unused(field, component.logger)
            yield from _missing(field, component.logger, annotations)
        elif ANNOTATION_LOGGER_FRACTION in (component.annotations or {}):
            yield f"annotation {ANNOTATION_LOGGER_FRACTION} of spec.{kind} (it has no logger)"
    if ANNOTATION_LOGGER_FRACTION in service.metadata.annotations and not any(
        component.logger for _, component in specified_components(service.spec)
    ):
        yield f"annotation {ANNOTATION_LOGGER_FRACTION} (the service has no logger)"


def _unread(field: str, component: ComponentSpec, chosen: ChosenRuntime | None) -> Iterator[str]:
    is_transformed = any(item.get("name") == CONTAINER_TRANSFORMER for item in component.containers or ())
    if chosen is None or is_transformed:
        if LOGGER not in settings_read(component.annotations or {}):
            yield (
                f"{field} (the container gets {LOGGER}, and has to read it; if it does, as with our SDK, write "
                f"annotations: {{{ANNOTATION_SETTINGS}: {LOGGER}}} beside it)"
            )
    elif LOGGER not in settings_read(chosen.runtime.metadata.annotations):
        name = chosen.runtime.metadata.name
        yield (
            f"{field} (the server of runtime {name} gets {LOGGER}, which its annotation {ANNOTATION_SETTINGS} does "
            "not list)"
        )


def _unsent(field: str, logger: LoggerSpec, config: LoggerConfig) -> Iterator[str]:
    if problem := url_problem(logger.url or config.default_url):
        where = f"{field}.url" if logger.url else f"{field} without a url, and logger.defaultUrl of the ConfigMap"
        yield f"{where} (nothing is logged: {problem})"


def _unused(field: str, logger: LoggerSpec) -> Iterator[str]:
    if logger.storage:
        yield f"{field}.storage (payloads are sent to the url, and stored nowhere)"
    if logger.marshaller_url:
        yield f"{field}.marshallerUrl (payloads are sent as they are)"
    if logger.batch_size not in (None, 1):
        yield f"{field}.batchSize: {logger.batch_size} (each payload is sent by itself)"
    if logger.batch_interval not in (None, "", "0", "0s"):
        yield f"{field}.batchInterval: {logger.batch_interval} (each payload is sent at once)"


def _missing(field: str, logger: LoggerSpec, annotations: Mapping[str, str]) -> Iterator[str]:
    for name in logger.metadata_annotations or ():
        if name not in annotations:
            yield f"{field}.metadataAnnotations: {name} (the pods have no such annotation)"
