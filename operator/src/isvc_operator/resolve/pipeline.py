"""How a component comes about: the steps that its draft goes through, for each kind in their order.

A step takes the draft and the context, and returns the draft with one thing more decided. It knows nothing of the
others, and may rely on what those before it have done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isvc_operator.api.names import EXPLAINER, PREDICTOR, TRANSFORMER
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.context import Context, Step
from isvc_operator.resolve.defaults import service_name, with_defaults
from isvc_operator.resolve.image import server_image
from isvc_operator.resolve.logger import payload_logger
from isvc_operator.resolve.own_fields import own_fields
from isvc_operator.resolve.repeated_items import check_repeated_items
from isvc_operator.resolve.runtime_fields import fill_placeholders, runtime_fields
from isvc_operator.resolve.scaling import scaling
from isvc_operator.resolve.storage.planning import model_storage
from isvc_operator.resolve.termination import termination
from isvc_operator.resolve.tls import serving_tls
from isvc_operator.resolve.transformer import model_name_in_path, predictor_flags

STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    PREDICTOR: (
        own_fields,  # labels, annotations, the pod and its server as the service has them
        runtime_fields,  # the runtime's beneath them
        fill_placeholders,
        server_image,
        model_storage,
        service_name,
        termination,
        with_defaults,
        serving_tls,
        payload_logger,
        scaling,
        check_repeated_items,
    ),
    TRANSFORMER: (
        own_fields,
        model_storage,
        service_name,
        predictor_flags,
        termination,
        with_defaults,
        serving_tls,
        payload_logger,
        scaling,
        check_repeated_items,
    ),
    EXPLAINER: (
        own_fields,
        model_storage,
        service_name,
        predictor_flags,
        model_name_in_path,
        termination,
        with_defaults,
        serving_tls,
        payload_logger,
        scaling,
        check_repeated_items,
    ),
}


def build(context: Context) -> Component:
    """Return the component that the context requests; raises InvalidSpec."""
    component = Component(context.requested.kind, context.requested.name)
    for step in STEPS[component.kind]:
        component = step(component, context)
    return component
