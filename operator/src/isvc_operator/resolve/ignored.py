"""Everything of a service that has no effect, for the condition ``SpecSupported`` and for ``isvc validate``. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.unknown_fields import unknown_fields
from isvc_operator.config import OperatorConfig
from isvc_operator.limits import NAMED
from isvc_operator.resolve.network_policy import unreached_parts
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.support import refused_annotations, unread_settings, unsupported_parts, unused_fields
from isvc_operator.resolve.unserved import unserved_parts


def ignored_parts(service: InferenceService, resolved: Resolved | None, config: OperatorConfig) -> Iterator[str]:
    """Yield fields and annotations that have no effect, each with what happens instead.

    ``resolved`` is None if the service cannot be served: what depends on its runtime is not known.
    """
    yield from unknown_fields(service)
    yield from unsupported_parts(service, config.credentials)
    if resolved:
        yield from unread_settings(service, resolved.chosen, config.logger)
        yield from unserved_parts(resolved)
        yield from unreached_parts(service, resolved.access, config.network_policy, published=resolved.hosts.external)
    yield from islice(refused_annotations(service, config.ingress), NAMED)


def ignored_parts_of_runtime(runtime: ServingRuntime) -> Iterator[str]:
    """Yield a runtime's fields that have no effect, after its kind and name."""
    for field in (*unknown_fields(runtime), *unused_fields(runtime)):
        yield f"{runtime.kind} {runtime.metadata.name}: {field}"


def all_ignored_parts(service: InferenceService, resolved: Resolved | None, config: OperatorConfig) -> Iterator[str]:
    """Yield what has no effect in the service and in the runtime that was chosen for it."""
    yield from ignored_parts(service, resolved, config)
    if resolved and resolved.chosen:
        yield from ignored_parts_of_runtime(resolved.chosen.runtime)
