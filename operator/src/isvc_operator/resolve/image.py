"""Step: the tag of the server's image, by the version that the service asks for, or by its GPUs (docs/kserve.md)."""

from __future__ import annotations

from dataclasses import replace

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.names import ANNOTATION_FIXED_IMAGE
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.containers import with_tag
from isvc_operator.resolve.context import Context
from isvc_operator.resolve.runtime import (
    HUGGING_FACE,
    TENSORFLOW_SERVING,
    TORCHSERVE,
    VLLM,
    ChosenRuntime,
    server_type_of,
)

# Servers whose image for GPUs has the same tag with a suffix.
_WITH_GPU_TAG = (TENSORFLOW_SERVING, TORCHSERVE, HUGGING_FACE)
_GPU_TAG = "-gpu"
# vLLM's image without GPUs is another repository.
_CPU_REPOSITORY = "-cpu"
_GPU, _GPU_PARTITION = "nvidia.com/gpu", "nvidia.com/mig"


def server_image(component: Component, context: Context) -> Component:
    """Return the component with the image of its server; the user's own containers have theirs."""
    served = context.served
    if served is None or "image" not in component.server or has_fixed_image(served.model, served.chosen):
        return component
    image = image_for(component.server, server_type_of(served.chosen.runtime), served.model.runtime_version)
    return replace(component, server={**component.server, "image": image})


def has_fixed_image(model: ModelSpec, chosen: ChosenRuntime) -> bool:
    """Whether the server's image exists with one tag only: neither a version nor a GPU changes it."""
    fixed = chosen.runtime.metadata.annotations.get(ANNOTATION_FIXED_IMAGE, "").lower() == "true"
    return fixed and not has_own_image(model)


def has_own_image(model: ModelSpec) -> bool:
    """Whether the service replaces the image of its runtime."""
    return bool(model.as_dict().get("image"))


def image_for(container: Container, server_type: str | None, version: str | None) -> str:
    """Return the container's image with the tag that the service asks for, by its version or by its GPUs.

    An image that is pinned by digest is returned unchanged.
    """
    image: str = container.get("image", "")
    if version and image:
        return with_tag(image, version)
    repository, separator, tag = image.rpartition(":")
    if "@" in image or not separator or "/" in tag:
        return image
    if server_type in _WITH_GPU_TAG and _has_gpu(container) and not tag.endswith(_GPU_TAG):
        return f"{image}{_GPU_TAG}"
    if server_type == VLLM and not _has_gpu(container) and not repository.endswith(_CPU_REPOSITORY):
        return f"{repository}{_CPU_REPOSITORY}:{tag}"
    return image


def _has_gpu(container: Container) -> bool:
    """Whether the container may use a GPU of NVIDIA, or a part of one."""
    limits = container.get("resources", {}).get("limits", {})
    return any(name == _GPU or name.startswith(_GPU_PARTITION) for name in limits)
