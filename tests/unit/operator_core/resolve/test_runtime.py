"""Which runtime serves a model (docs/kserve.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.runtime import OF_KSERVE, ChosenRuntime, Runtimes, choose_runtime
from tests.support.builders import NAMESPACE, a_format, a_model, a_runtime
from tests.support.kserve_runtimes import kserve_runtimes
from tests.support.yaml_files import document

ROOT = Path(__file__).parents[4]


def of_cluster(*runtimes: ServingRuntime) -> Runtimes:
    return Runtimes(cluster=runtimes)


def unversioned_model(**fields: object) -> ModelSpec:
    return a_model(**{"protocolVersion": None, **fields})


def test_the_runtime_that_lists_the_format_is_chosen_with_the_models_protocol() -> None:
    other, fitting = a_runtime("other", formats=[a_format("onnx")]), a_runtime(protocols=["v1", "v2"])

    chosen = choose_runtime(a_model(protocolVersion="v2"), of_cluster(other, fitting))

    assert chosen == ChosenRuntime(fitting, cluster_wide=True, protocol="v2")


@pytest.mark.parametrize(
    ("protocols", "protocol"),
    [(["v1"], "v1"), (["v2", "v1"], "v1"), ([], "v1")],
    ids=["its only one", "the plainest of several", "v1 where it lists none"],
)
def test_a_model_without_a_protocol_speaks_the_runtimes_plainest(protocols: list[str], protocol: str) -> None:
    chosen = choose_runtime(unversioned_model(), of_cluster(a_runtime("mine", protocols=protocols, server_type=None)))

    assert chosen.protocol == protocol


def test_a_named_runtime_that_speaks_v2_only_makes_a_model_without_a_protocol_speak_v2() -> None:
    runtime = a_runtime("mine", protocols=["grpc-v2", "v2"], server_type=None)

    assert choose_runtime(unversioned_model(runtime="mine"), of_cluster(runtime)).protocol == "v2"


@pytest.mark.parametrize(
    ("server_type", "protocol"), [("torchserve", "v1"), ("mlserver", "v2"), ("tritonserver", "v2")]
)
@pytest.mark.parametrize("protocols", [[], ["v1", "v2"], ["grpc-v2"]])
def test_a_model_without_a_protocol_speaks_that_of_the_type_of_server(
    protocols: list[str], server_type: str, protocol: str
) -> None:
    runtime = a_runtime("mine", protocols=protocols, server_type=server_type)

    assert choose_runtime(unversioned_model(runtime="mine"), of_cluster(runtime)).protocol == protocol


# --- what is left out of the choice ------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [None, "", "1"])
def test_a_version_matches_if_it_is_the_same_or_not_specified(wanted: str | None) -> None:
    model = a_model(modelFormat={"name": "pytorch", "version": wanted})

    assert choose_runtime(model, of_cluster(a_runtime())).runtime == a_runtime()


def test_a_runtime_without_protocols_speaks_every_one() -> None:
    runtime = a_runtime(protocols=[])

    assert choose_runtime(a_model(protocolVersion="grpc-v2"), of_cluster(runtime)).protocol == "grpc-v2"


def test_one_format_that_may_be_selected_is_enough() -> None:
    runtime = a_runtime(formats=[a_format(version="2", auto_select=False), a_format(version="1")])

    assert choose_runtime(a_model(), of_cluster(runtime)).runtime == runtime


# --- which of several --------------------------------------------------------------------------------


def test_a_runtime_of_the_namespace_comes_before_any_of_the_cluster() -> None:
    ours = a_runtime("ours", namespace=NAMESPACE)
    better = a_runtime("better", formats=[a_format(priority=9)])

    chosen = choose_runtime(a_model(), Runtimes(namespaced=(ours,), cluster=(better,)))

    assert chosen == ChosenRuntime(ours, cluster_wide=False, protocol="v1")


YIELDS = {"isvc-operator.io/yields": "true"}
OLD, NEW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"

# The first of each pair is the one to choose.
PREFERRED = {
    "the higher priority": (
        a_runtime("z", formats=[a_format(priority=2)], protocols=["v1", "v2"], created=OLD),
        a_runtime("a", formats=[a_format(priority=1)], created=NEW),
    ),
    "one with a priority before one without": (
        a_runtime("z", formats=[a_format(priority=1)], created=OLD),
        a_runtime("a", created=NEW),
    ),
    "the priority of the format asked for": (
        a_runtime("z", formats=[a_format(priority=2)], created=OLD),
        a_runtime("a", formats=[a_format(priority=1), a_format("onnx", priority=9)], created=NEW),
    ),
    "the plainest protocol before the newest": (
        a_runtime("z", protocols=["v2", "v1"], created=OLD),
        a_runtime("a", protocols=[], created=NEW),
    ),
    "the newest": (a_runtime("z", created=NEW), a_runtime("a", created=OLD)),
    "the first by name": (a_runtime("a"), a_runtime("z")),
    "one that does not yield, whatever the priority": (
        a_runtime("z", protocols=["v2", "v1"], created=OLD),
        a_runtime("a", formats=[a_format(priority=9)], metadata_annotations=YIELDS, created=NEW),
    ),
    "of two that yield, the one of the higher priority": (
        a_runtime("z", formats=[a_format(priority=2)], metadata_annotations=YIELDS),
        a_runtime("a", formats=[a_format(priority=1)], metadata_annotations=YIELDS),
    ),
}


@pytest.mark.parametrize(("best", "other"), PREFERRED.values(), ids=PREFERRED.keys())
def test_of_several_runtimes_it_chooses(best: ServingRuntime, other: ServingRuntime) -> None:
    assert choose_runtime(a_model(), of_cluster(best, other)).runtime == best
    assert choose_runtime(a_model(), of_cluster(other, best)).runtime == best


# --- beside KServe's runtimes ------------------------------------------------------------------------


def shipped(*folders: str, created: str = NEW) -> dict[str, ServingRuntime]:
    """The runtimes of these folders of `manifests`, by name."""
    files = [path for folder in folders for path in (ROOT / "manifests" / folder).glob("*-*.yaml")]
    bodies = [document(path) for path in files]
    return {
        body["metadata"]["name"]: parse_serving_runtime(
            {**body, "metadata": {**body["metadata"], "creationTimestamp": created}}
        )
        for body in bodies
    }


def every_model() -> list[ModelSpec]:
    """A model for each format of KServe's runtimes, with each version and with each protocol, or without."""
    entries = [entry for runtime in kserve_runtimes().values() for entry in runtime.spec.supported_model_formats]
    formats = {(entry.name, version) for entry in entries for version in (entry.version, None)}
    return [
        unversioned_model(modelFormat={"name": name, "version": version}, protocolVersion=protocol)
        for name, version in sorted(formats, key=str)
        for protocol in (None, "v1", "v2", "grpc-v1", "grpc-v2")
    ]


def chosen_of(model: ModelSpec, runtimes: Mapping[str, ServingRuntime]) -> str | None:
    try:
        return choose_runtime(model, of_cluster(*runtimes.values())).runtime.metadata.name
    except InvalidSpec:
        return None


def taken(before: Mapping[str, ServingRuntime], after: Mapping[str, ServingRuntime]) -> set[tuple[str, str, str]]:
    """The formats that another runtime serves now, with the runtimes before and after."""
    found = {(model.model_format.name, chosen_of(model, before), chosen_of(model, after)) for model in every_model()}
    return {(format_, old, new or "none") for format_, old, new in found if old not in (None, new)}


@pytest.mark.parametrize("created", [OLD, NEW], ids=["before KServe's", "after KServe's"])
def test_our_runtimes_take_pytorch_only_in_place_of_kserves_torchserve(created: str) -> None:
    kserves = kserve_runtimes("2025-06-01T00:00:00Z")

    assert taken(kserves, kserves | shipped("runtimes", created=created)) == {
        ("pytorch", "kserve-torchserve", "isvc-mar")
    }


@pytest.mark.parametrize("created", [OLD, NEW], ids=["before KServe's", "after KServe's"])
def test_they_take_no_format_where_kserves_torchserve_is_kept(created: str) -> None:
    kserves = kserve_runtimes("2025-06-01T00:00:00Z")

    assert taken(kserves, shipped("runtimes", created=created) | kserves) == set()


@pytest.mark.parametrize("priority", [None, 1, 2, 3])
def test_they_take_no_format_from_a_runtime_of_the_users(priority: int | None) -> None:
    formats = [a_format(name, priority=priority) for name in ("pytorch", "onnx", "sklearn")]
    own = {"mine": a_runtime("mine", formats=formats, protocols=["v2", "grpc-v2"], created=OLD)}

    assert taken(own, own | shipped("runtimes", "runtimes-kserve")) == set()


def test_the_optional_runtimes_take_no_format_from_the_others() -> None:
    ours = shipped("runtimes")

    assert taken(ours, ours | shipped("runtimes-kserve")) == set()


def test_the_optional_runtimes_serve_what_kserves_of_the_same_names_serve() -> None:
    optional = shipped("runtimes-kserve")
    kserves = {name: runtime for name, runtime in kserve_runtimes().items() if name in optional}

    assert kserves.keys() == optional.keys()
    assert {chosen_of(model, optional) for model in every_model()} == {*optional, None}
    assert taken(kserves, optional) == set()
    assert taken(optional, kserves) == set()


# --- a runtime that is named --------------------------------------------------------------------------


def test_a_named_runtime_is_taken_whatever_the_others_priority() -> None:
    named = a_runtime("mine", formats=[a_format(auto_select=False)])
    better = a_runtime("better", formats=[a_format(priority=9)])

    assert choose_runtime(a_model(runtime="mine"), of_cluster(better, named)).runtime == named


def test_a_named_runtime_is_looked_up_in_the_namespace_first() -> None:
    ours, theirs = a_runtime("same", namespace=NAMESPACE), a_runtime("same")

    chosen = choose_runtime(a_model(runtime="same"), Runtimes(namespaced=(ours,), cluster=(theirs,)))

    assert chosen == ChosenRuntime(ours, cluster_wide=False, protocol="v1")


@pytest.mark.parametrize("annotated", [None, ""])
def test_an_empty_annotation_names_no_runtime(annotated: str | None) -> None:
    assert choose_runtime(a_model(), of_cluster(a_runtime()), annotated).runtime == a_runtime()


# --- messages if none is found -------------------------------------------------------------------------


BROKEN = {"mine": "ServingRuntime mine is not valid: spec.containers: Field required"}
OF_A_BROKEN_ONE = {
    "that is named": (
        a_model(runtime="mine"),
        Runtimes(cluster=(a_runtime(),), unreadable=BROKEN),
        "RuntimeNotRecognized",
        "runtime 'mine' of spec.predictor.model.runtime cannot be used: ServingRuntime mine is not valid: "
        "spec.containers: Field required. Correct that runtime",
    ),
    "and of no other": (
        a_model(),
        Runtimes(unreadable=BROKEN),
        "NoSupportingRuntime",
        "there is no ServingRuntime in this namespace and no ClusterServingRuntime; install one. "
        "ServingRuntime mine is not valid: spec.containers: Field required",
    ),
    "and none that fits": (
        a_model(modelFormat={"name": "caffe"}),
        Runtimes(cluster=(a_runtime(),), unreadable=BROKEN),
        "NoSupportingRuntime",
        "no runtime serves model format 'caffe' with protocol v1; available: "
        "'pytorch' (kserve-torchserve). "
        "Correct spec.predictor.model, or install a runtime that serves it. "
        "ServingRuntime mine is not valid: spec.containers: Field required",
    ),
}


@pytest.mark.parametrize(
    ("model", "runtimes", "reason", "message"), OF_A_BROKEN_ONE.values(), ids=OF_A_BROKEN_ONE.keys()
)
def test_an_invalid_runtime_is_reported_with_what_is_wrong(
    model: ModelSpec, runtimes: Runtimes, reason: str, message: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        choose_runtime(model, runtimes)

    assert (caught.value.reason, str(caught.value)) == (reason, message)


def test_a_runtime_that_is_not_valid_does_not_stop_a_service_of_another() -> None:
    assert choose_runtime(a_model(), Runtimes(cluster=(a_runtime(),), unreadable=BROKEN)).runtime == a_runtime()


@pytest.mark.parametrize("name", ["PyTorch", "pytroch", "torchscript", "torch-script", "TorchServe", "torch"])
def test_a_format_by_another_name_is_told_the_name_of_a_runtime(name: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        choose_runtime(a_model(modelFormat={"name": name}), of_cluster(a_runtime()))

    assert str(caught.value).startswith(f"no runtime serves model format {name!r} (did you mean pytorch?)")


def test_a_format_of_kserve_is_told_how_it_can_be_served_and_each_other_one_once() -> None:
    offered = a_runtime("one"), a_runtime("two"), a_runtime("other", formats=[a_format("onnx")])
    with pytest.raises(InvalidSpec) as caught:
        choose_runtime(a_model(modelFormat={"name": "sklearn"}), of_cluster(*offered))

    assert str(caught.value) == (
        "no runtime serves model format 'sklearn' with protocol v1; available: 'onnx' (other), 'pytorch' (one, two). "
        "Correct spec.predictor.model, or install a runtime that serves it: one of manifests/runtimes-kserve, or your "
        "own (docs/choose-a-runtime.md); or load the model in the handler.py of a folder, whose format is pytorch "
        "(docs/bare-models.md)"
    )


def test_the_formats_of_kserve_are_those_of_the_runtimes_for_them() -> None:
    paths = (ROOT / "manifests/runtimes-kserve").glob("kserve-*.yaml")
    formats = {it["name"] for path in paths for it in yaml.safe_load(path.read_text())["spec"]["supportedModelFormats"]}

    assert formats - {"pytorch", "onnx"} == OF_KSERVE
