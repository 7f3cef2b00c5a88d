"""Which ServingRuntime serves a model, and with which image: KServe's rules (docs/kserve.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from isvc_operator.api.components import ModelFormat, ModelSpec
from isvc_operator.api.names import ANNOTATION_RUNTIME, ANNOTATION_SERVER_TYPE, ANNOTATION_YIELDS
from isvc_operator.api.serving_runtime import ServingRuntime, SupportedModelFormat
from isvc_operator.errors import InvalidSpec
from isvc_operator.ignored.walker import suggestion
from isvc_operator.manifests import Container
from isvc_operator.resolve.containers import with_tag

MLSERVER: Final = "mlserver"
TORCHSERVE: Final = "torchserve"
TRITON: Final = "tritonserver"
TENSORFLOW_SERVING: Final = "tensorflow-serving"
HUGGING_FACE: Final = "huggingfaceserver"
VLLM: Final = "vllmserver"

# KServe's names of runtimes that have no annotation for their server's type.
_BY_NAME = {
    "kserve-mlserver": MLSERVER,
    "kserve-torchserve": TORCHSERVE,
    "kserve-tritonserver": TRITON,
    "kserve-tensorflow-serving": TENSORFLOW_SERVING,
    "kserve-huggingfaceserver": HUGGING_FACE,
    "kserve-vllmserver": VLLM,
}
_DEFAULT_PROTOCOLS = {TORCHSERVE: "v1", MLSERVER: "v2", TRITON: "v2"}
# Servers whose image for GPUs has the same tag with a suffix.
_WITH_GPU_TAG = (TENSORFLOW_SERVING, TORCHSERVE, HUGGING_FACE)
_GPU_TAG = "-gpu"
# vLLM's image without GPUs is another repository.
_CPU_REPOSITORY = "-cpu"
_GPU, _GPU_PARTITION = "nvidia.com/gpu", "nvidia.com/mig"
# What people call the format of archives and TorchScript, without signs between the letters.
_CALLED = dict.fromkeys(("torch", "torchscript", "torchserve", "mar", "torchmodelarchive"), "pytorch")
# Formats of the runtimes in manifests/runtimes-kserve.
OF_KSERVE: Final = frozenset(
    {"sklearn", "xgboost", "lightgbm", "mlflow", "tensorflow", "triton", "tensorrt", "huggingface"}
)
# KServe's order of preference.
_PROTOCOLS = ("v1", "v2", "grpc-v1", "grpc-v2")


@dataclass(frozen=True)
class Runtimes:
    """The runtimes that a service may use; those of its namespace take precedence over those of the cluster.

    ``unreadable`` maps names of invalid runtimes to what is wrong with them.
    """

    namespaced: tuple[ServingRuntime, ...] = ()
    cluster: tuple[ServingRuntime, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChosenRuntime:
    """The runtime, its scope, and the protocol to use."""

    runtime: ServingRuntime
    cluster_wide: bool
    protocol: str


def choose_runtime(model: ModelSpec, runtimes: Runtimes, annotated: str | None = None) -> ChosenRuntime:
    """Return the runtime for ``model``; raises InvalidSpec with KServe's failure reason if there is none.

    ``annotated`` is the runtime in the service's annotation; the spec wins over it.
    """
    if model.runtime:
        return _named(model.runtime, model, runtimes, field="spec.predictor.model.runtime")
    if annotated:
        return _named(annotated, model, runtimes, field=f"the annotation {ANNOTATION_RUNTIME}")
    protocol = model.protocol_version or "v1"
    for group, cluster_wide in ((runtimes.namespaced, False), (runtimes.cluster, True)):
        fitting = [runtime for runtime in group if _fits(runtime, model, protocol)]
        if fitting:
            best = _preferred(fitting, model)
            return ChosenRuntime(best, cluster_wide, _protocol_for(model, best))
    raise InvalidSpec(_nothing_fits(model, protocol, runtimes), "NoSupportingRuntime")


def server_type_of(runtime: ServingRuntime) -> str | None:
    """Return the type of the runtime's server: that of its annotation, or else of KServe's name for it."""
    named = _BY_NAME.get(runtime.metadata.name)
    return runtime.metadata.annotations.get(ANNOTATION_SERVER_TYPE) or named


def why_preferred(chosen: ChosenRuntime, model: ModelSpec, runtimes: Runtimes) -> str:
    """Return why ``choose_runtime`` has chosen it for a model that names none, in words."""
    protocol = model.protocol_version or "v1"
    where, group = ("", runtimes.cluster) if chosen.cluster_wide else (" of the namespace", runtimes.namespaced)
    serves = f"serves model format {_described(model.model_format)} with protocol {protocol}"
    others = [item for item in group if item is not chosen.runtime and _fits(item, model, protocol)]
    if not others:
        return f"the only runtime{where} that {serves}"
    second = _preferred(others, model)
    return (
        f"{serves}, like {_listing(item.metadata.name for item in others)}; {_advantage(chosen.runtime, second, model)}"
    )


def _advantage(best: ServingRuntime, second: ServingRuntime, model: ModelSpec) -> str:
    if _yields(best) != _yields(second):
        return f"{second.metadata.name} yields to others"
    if _priority(best, model) != _priority(second, model):
        return f"it has the highest priority, {_priority(best, model)}"
    if _rank(_lowest_protocol(best)) != _rank(_lowest_protocol(second)):
        return f"it has the lowest protocol, {_lowest_protocol(best)}"
    return "it is the newest, or the first by its name"


def _named(name: str, model: ModelSpec, runtimes: Runtimes, *, field: str) -> ChosenRuntime:
    for group, cluster_wide in ((runtimes.namespaced, False), (runtimes.cluster, True)):
        for runtime in group:
            if runtime.metadata.name == name:
                _check_named(runtime, model)
                return ChosenRuntime(runtime, cluster_wide, _protocol_for(model, runtime))
    if name in runtimes.unreadable:
        raise InvalidSpec(
            f"runtime {name!r} of {field} cannot be used: {runtimes.unreadable[name]}. Correct that runtime",
            "RuntimeNotRecognized",
        )
    known = [runtime.metadata.name for runtime in (*runtimes.namespaced, *runtimes.cluster)]
    raise InvalidSpec(
        f"runtime {name!r} of {field} does not exist{suggestion(name, known)}; available: {_listing(known)}. "
        "Correct the name, leave it out, or create that ServingRuntime",
        "RuntimeNotRecognized",
    )


def _check_named(runtime: ServingRuntime, model: ModelSpec) -> None:
    name, wanted = runtime.metadata.name, model.model_format
    if runtime.spec.disabled:
        raise InvalidSpec(f"runtime {name!r} is disabled; enable it or name another one", "RuntimeDisabled")
    if runtime.spec.worker_spec:
        raise InvalidSpec(
            f"runtime {name!r} runs one model on several nodes (workerSpec), which is not supported; name another one",
            "NoSupportingRuntime",
        )
    if not any(_format_matches(entry, model) for entry in runtime.spec.supported_model_formats):
        raise InvalidSpec(
            f"runtime {name!r} does not serve model format {_described(wanted)}{_format_meant(wanted, [runtime])}; "
            f"it serves: {_listing(map(_described, runtime.spec.supported_model_formats))}",
            "NoSupportingRuntime",
        )
    if model.protocol_version and not _speaks(runtime, model.protocol_version):
        raise InvalidSpec(
            f"runtime {name!r} does not support protocol {model.protocol_version}"
            f"{suggestion(model.protocol_version, runtime.spec.protocol_versions)}; "
            f"it supports: {_listing(runtime.spec.protocol_versions)}",
            "NoSupportingRuntime",
        )


def _fits(runtime: ServingRuntime, model: ModelSpec, protocol: str) -> bool:
    spec = runtime.spec
    if spec.disabled or spec.multi_model or spec.worker_spec or not _speaks(runtime, protocol):
        return False
    return any(entry.auto_select and _format_matches(entry, model) for entry in spec.supported_model_formats)


def _format_matches(entry: SupportedModelFormat, model: ModelSpec) -> bool:
    wanted = model.model_format
    return entry.name == wanted.name and wanted.version in (None, "", entry.version)


def _speaks(runtime: ServingRuntime, protocol: str) -> bool:
    return not runtime.spec.protocol_versions or protocol in runtime.spec.protocol_versions


def _preferred(fitting: Sequence[ServingRuntime], model: ModelSpec) -> ServingRuntime:
    """Return the best by priority, then lowest protocol, newest, and name (each sort is stable).

    A runtime that yields comes after all others, whatever its priority: those of this operator take no format from a
    runtime that KServe or the administrator has installed.
    """
    by_name = sorted(fitting, key=lambda runtime: runtime.metadata.name)
    newest = sorted(by_name, key=lambda runtime: str(runtime.metadata.creation_timestamp or ""), reverse=True)
    lowest = sorted(newest, key=lambda runtime: _rank(_lowest_protocol(runtime)))
    return max(lowest, key=lambda runtime: (not _yields(runtime), _priority(runtime, model)))


def _yields(runtime: ServingRuntime) -> bool:
    return runtime.metadata.annotations.get(ANNOTATION_YIELDS, "").lower() == "true"


def _priority(runtime: ServingRuntime, model: ModelSpec) -> int:
    entries = runtime.spec.supported_model_formats
    return max((entry.priority or 0 for entry in entries if _format_matches(entry, model)), default=0)


def _protocol_for(model: ModelSpec, runtime: ServingRuntime) -> str:
    default = _DEFAULT_PROTOCOLS.get(server_type_of(runtime) or "")
    return model.protocol_version or default or _lowest_protocol(runtime) or "v1"


def _lowest_protocol(runtime: ServingRuntime) -> str:
    return min(runtime.spec.protocol_versions, key=_rank, default="")


def _rank(protocol: str) -> int:
    return _PROTOCOLS.index(protocol) if protocol in _PROTOCOLS else len(_PROTOCOLS)


def _nothing_fits(model: ModelSpec, protocol: str, runtimes: Runtimes) -> str:
    everything = (*runtimes.namespaced, *runtimes.cluster)
    left_out = "".join(f". {problem}" for problem in runtimes.unreadable.values())
    if not everything:
        return f"there is no ServingRuntime in this namespace and no ClusterServingRuntime; install one{left_out}"
    wanted = f"{_described(model.model_format)}{_format_meant(model.model_format, everything)}"
    known = {version for runtime in everything for version in runtime.spec.protocol_versions}
    meant = "" if protocol in known else suggestion(protocol, known)
    return (
        f"no runtime serves model format {wanted} with protocol {protocol}{meant}; "
        f"available: {_offers(everything, model.model_format.name)}. Correct spec.predictor.model, or "
        f"{_how_to_serve(model.model_format.name, everything)}{left_out}"
    )


def _how_to_serve(name: str, runtimes: Iterable[ServingRuntime]) -> str:
    if name not in OF_KSERVE or any(entry.name == name for it in runtimes for entry in it.spec.supported_model_formats):
        return "install a runtime that serves it"
    return (
        "install a runtime that serves it: one of manifests/runtimes-kserve, or your own (docs/choose-a-runtime.md); "
        "or load the model in the handler.py of a folder, whose format is pytorch (docs/bare-models.md)"
    )


def _format_meant(wanted: ModelFormat, runtimes: Iterable[ServingRuntime]) -> str:
    """Return which format of the runtimes may be meant; empty if one of them has the name that is wanted."""
    known = {entry.name for runtime in runtimes for entry in runtime.spec.supported_model_formats}
    if wanted.name in known:
        return ""
    meant = _CALLED.get(re.sub("[^a-z]", "", wanted.name.lower()))
    return suggestion(wanted.name, known) or (f" (did you mean {meant}?)" if meant in known else "")


def _offers(runtimes: Iterable[ServingRuntime], wanted: str) -> str:
    """Return what is served: each format with its runtimes, or how to get the one that is wanted, if it is served."""
    offers = [
        (entry, runtime)
        for runtime in runtimes
        if not runtime.spec.disabled
        for entry in runtime.spec.supported_model_formats
    ]
    if nearest := [(entry, runtime) for entry, runtime in offers if entry.name == wanted]:
        return _listing(
            f"{_described(entry)} ({_how_to_get(runtime, entry)}, {_protocols(runtime)})" for entry, runtime in nearest
        )
    by_name: dict[str, list[str]] = {}
    for entry, runtime in offers:
        by_name.setdefault(entry.name, []).append(runtime.metadata.name)
    return _listing(f"{name!r} ({_listing(of)})" for name, of in by_name.items())


def _how_to_get(runtime: ServingRuntime, entry: SupportedModelFormat) -> str:
    name = runtime.metadata.name
    return f"runtime {name}" if entry.auto_select else f"only by spec.predictor.model.runtime: {name}"


def _protocols(runtime: ServingRuntime) -> str:
    versions = runtime.spec.protocol_versions
    return f"protocols {_listing(versions)}" if versions else "every protocol"


def _described(format_: ModelFormat | SupportedModelFormat) -> str:
    return f"{format_.name!r} version {format_.version}" if format_.version else f"{format_.name!r}"


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or "nothing"


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
