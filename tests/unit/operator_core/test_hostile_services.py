"""Whatever a service contains, it gets children or a reason, in limited steps, and a status of limited size."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isvc_operator.api.base import ApiModel, field_names
from isvc_operator.api.components import PredictorSpec, TransformerSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.api.parsing import InvalidObject, parse_inference_service
from isvc_operator.config import CredentialsConfig, OperatorConfig
from isvc_operator.errors import InvalidSpec, Problem, Unexpected
from isvc_operator.ignored.walker import ignored_settings, unknown_fields, unused_parts
from isvc_operator.limits import EVENT_BYTES, FILLED_CHARACTERS, MESSAGE_BYTES, NAMED, URI_CHARACTERS
from isvc_operator.observe.component import rollout_of
from isvc_operator.observe.events import events_for
from isvc_operator.observe.pods import first_failure
from isvc_operator.observe.status import Observation, derive_status
from isvc_operator.plan.changes import plan_changes
from isvc_operator.plan.diff import matches
from isvc_operator.render.children import render
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from tests.support.builders import (
    NOW,
    a_crashed_pod,
    a_pod,
    a_runtime_body,
    a_service_body,
    seen,
    the_shipped_runtime,
)
from tests.support.reconcile_fixture import Cluster, cluster_with

CONFIG = OperatorConfig()
RUNTIMES = Runtimes(cluster=(the_shipped_runtime(),))


def _names(*models: type[ApiModel]) -> list[str]:
    return sorted({name for model in models for name in field_names(model)})


KEYS = st.sampled_from(
    [
        *_names(InferenceServiceSpec, PredictorSpec, TransformerSpec, PodSpecFields, ContainerFields),
        "modelFormat", "storageUri", "uri", "mountPath", "containerPort", "value", "valueFrom", "limits", "requests",
        "cpu", "preStop", "sleep", "seconds", "httpGet", "path", "key", "parameters", "privileged", "runAsUser",
        "capabilities",
    ]
)  # fmt: skip
TEXTS = st.sampled_from(
    [
        "", "a", "kserve-container", "transformer-container", "storage-initializer", "STORAGE_URI", "PROTOCOL",
        "pytorch", "v1", "v2", "grpc-v2", "pvc://", "pvc://a/../b", "s3://b/k", "hdfs://x", "file", "{{.Name}}",
        "{{.Labels.a.b}}",
        "{{", "--port=8080", "--predictor_host", "--model_name=", "8080", "1e99999999999999999999", "500m", "\x1b[31m",
        "\u202e", "/mnt/models", "..", "[" * 2000, '{"a": NaN}',
    ]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats(allow_nan=False) | TEXTS
VALUES_OF_ANY_SHAPE = st.recursive(
    LEAVES, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=4), max_leaves=12
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "storage.isvc-operator.io/resources", "storage.isvc-operator.io/sha256",
            "storage.isvc-operator.io/pvc-mode", "serving.kserve.io/stop",
            "serving.kserve.io/autoscalerClass", "isvc-operator.io/runtime", "a",
            "serving.kserve.io/deploymentMode", "nginx.ingress.kubernetes.io/server-alias",
        ]
    ),
    TEXTS | st.sampled_from(['{"limits": {"memory": [[[1]]]}}', '{"limits": 5}', "[]", '{"a/b": "' + "0" * 64 + '"}']),
    max_size=3,
)  # fmt: skip


def merged(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{name: merged(base.get(name), value) for name, value in over.items()}}
    return over


OBJECTS = st.dictionaries(KEYS, VALUES_OF_ANY_SHAPE, max_size=3)
NUMBERS = st.integers(-1, 2**40)
LIFECYCLES = st.fixed_dictionaries(
    {}, optional={"preStop": st.fixed_dictionaries({"sleep": st.fixed_dictionaries({"seconds": NUMBERS})}) | OBJECTS}
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


# Of the types that they should have: these get past the API server.
FIELDS_OF_CONTAINERS: dict[str, st.SearchStrategy[Any]] = {
    "image": TEXTS,
    "command": st.lists(TEXTS, max_size=3),
    "args": st.lists(TEXTS, max_size=4),
    "env": st.lists(
        st.fixed_dictionaries({"name": TEXTS}, optional={"value": LEAVES, "valueFrom": OBJECTS}), max_size=3
    ),
    "ports": st.lists(
        st.fixed_dictionaries({"containerPort": NUMBERS}, optional={"name": TEXTS, "protocol": TEXTS}), max_size=2
    ),
    "volumeMounts": st.lists(some(name=TEXTS, mountPath=TEXTS), max_size=2),
    "resources": some(limits=OBJECTS, requests=OBJECTS) | OBJECTS,
    "lifecycle": LIFECYCLES,
    "securityContext": OBJECTS,
    "readinessProbe": OBJECTS,
}
CONTAINERS = st.lists(some(name=TEXTS, **FIELDS_OF_CONTAINERS), max_size=3)
FIELDS_OF_PODS: dict[str, st.SearchStrategy[Any]] = {
    "initContainers": CONTAINERS,
    "volumes": st.lists(some(name=TEXTS, emptyDir=OBJECTS), max_size=2),
    "imagePullSecrets": st.lists(some(name=TEXTS), max_size=2),
    "securityContext": OBJECTS,
    "affinity": OBJECTS,
    "tolerations": st.lists(OBJECTS, max_size=2),
    "nodeSelector": st.dictionaries(TEXTS, TEXTS, max_size=2),
    "terminationGracePeriodSeconds": NUMBERS,
    "minReplicas": st.integers(0, 9),
    "containerConcurrency": st.integers(0, 9),
    "timeout": NUMBERS,
    "labels": st.dictionaries(TEXTS, TEXTS, max_size=2),
    "annotations": ANNOTATIONS,
    "storageUris": st.lists(
        st.fixed_dictionaries({"uri": TEXTS.filter(bool)}, optional={"mountPath": TEXTS}), max_size=2
    ),
    "somethingElse": VALUES_OF_ANY_SHAPE,
}
MODELS = st.fixed_dictionaries(
    {"modelFormat": st.just({"name": "pytorch"})},
    optional={**FIELDS_OF_CONTAINERS, "storageUri": TEXTS, "runtimeVersion": TEXTS, "protocolVersion": TEXTS},
)
SPECS = some(
    predictor=some(model=MODELS, containers=CONTAINERS, name=st.just("b"), **FIELDS_OF_PODS),
    transformer=some(containers=CONTAINERS, **FIELDS_OF_PODS),
    explainer=some(containers=CONTAINERS, **FIELDS_OF_PODS),
    somethingElse=VALUES_OF_ANY_SHAPE,
) | st.dictionaries(st.sampled_from(["predictor", "transformer", "explainer"]), OBJECTS, max_size=2)


def derived(body: dict[str, Any]) -> str:
    """What becomes of the service: its children as JSON, or the reason why there are none."""
    try:
        service = parse_inference_service(body)
    except InvalidObject as error:
        return str(error)
    try:
        resolved = resolve(service, RUNTIMES, CONFIG, storage=StorageContext(storage_requests(service)))
        changes = plan_changes(render(resolved, CONFIG), [], "uid")
        problem, text = None, json.dumps([change.manifest for change in changes])
    except InvalidSpec as error:
        resolved, problem, text = None, Problem.of(error), str(error)
    ignored = [*unknown_fields(service), *unused_parts(service, CredentialsConfig())]
    observation = Observation(service, resolved, [seen()], problem=problem, ignored=ignored)
    status = derive_status(observation, NOW)
    assert all(len((item.message or "").encode()) <= MESSAGE_BYTES for item in status.conditions)
    assert all(len(event["message"].encode()) <= EVENT_BYTES for event in events_for(service, status, NOW))
    return text


@settings(max_examples=150, deadline=None)
@given(spec=SPECS, annotations=ANNOTATIONS)
def test_a_service_of_any_shape_gets_children_or_a_reason(spec: dict[str, Any], annotations: dict[str, str]) -> None:
    body = a_service_body(annotations=annotations)

    assert derived({**body, "spec": merged(body["spec"], spec)})


# --- large ones: counted work, not time ------------------------------------------------------------------


def test_of_many_unknown_fields_only_the_reported_ones_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    matches = difflib.get_close_matches

    def counted(*arguments: Any, **options: Any) -> list[str]:
        nonlocal compared
        compared += 1
        return matches(*arguments, **options)

    monkeypatch.setattr("isvc_operator.ignored.walker.get_close_matches", counted)
    many = {f"minReplicas{number}": 1 for number in range(10_000)}
    found = unknown_fields(parse_inference_service(a_service_body(predictor=many)))

    assert (len(found), found[-1]) == (NAMED + 1, "and others")
    assert compared == NAMED + 1


def test_a_long_name_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("isvc_operator.ignored.walker.get_close_matches")

    (found,) = unknown_fields(parse_inference_service(a_service_body(predictor={"x\n" * 100_000: 1})))

    assert found.startswith("spec.predictor.x\\nx\\n")
    assert len(found) < 2000


LARGE_SPECS = {
    "unknown fields": {"predictor": {f"field{number}": 1 for number in range(80_000)}},
    "variables": {"predictor": {"model": {"env": [{"name": f"E{n}", "value": "x"} for n in range(6_000)]}}},
    "500 variables": {"predictor": {"model": {"env": [{"name": f"E{n}", "value": "x" * 2000} for n in range(500)]}}},
    "arguments": {"predictor": {"model": {"args": ["--flag"] * 19_000}}},
    "containers": {"predictor": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(100)]}},
    "one text": {"predictor": {"model": {"storageUri": "pvc://" + "a" * 1_400_000}}},
    "one key": {"predictor": {"k" * 1_400_000: 1}},
    "one format": {"predictor": {"model": {"modelFormat": {"name": "p\x1b" * 700_000}}}},
    "wrong types": {"predictor": {"containers": [{"name": 1, "env": [{}] * 400}] * 90}},
    "placeholders": {"predictor": {"model": {"args": ["{{.Annotations.a}}"] * 19_000}}},
    "depth": {"predictor": {"affinity": json.loads('{"a":' * 900 + "1" + "}" * 900)}},
    "host": {"predictor": {"name": "n" * 63}},
}


@pytest.mark.parametrize("spec", LARGE_SPECS.values(), ids=LARGE_SPECS)
def test_a_large_service_gets_children_or_a_reason(spec: dict[str, Any]) -> None:
    body = a_service_body(annotations={"a": "x" * 200_000, "storage.isvc-operator.io/sha256": "{}"})

    assert derived({**body, "spec": merged(body["spec"], spec)})


@pytest.mark.parametrize("text", ["[" * 200_000, '{"limits":' * 20_000, '{"a":[' + "1," * 60_000 + "1]}", "9" * 5000])
@pytest.mark.parametrize("name", ["resources", "sha256"])
def test_a_hostile_json_text_in_an_annotation_is_reported(name: str, text: str) -> None:
    annotation = f"storage.isvc-operator.io/{name}"

    assert derived(a_service_body(annotations={annotation: text})).startswith(f"annotation {annotation} ")


def test_a_hostile_json_text_in_the_config_map_is_reported() -> None:
    assert ignored_settings({"deploy": "[" * 100_000}) == ["deploy (it is not a JSON object)"]


def test_what_placeholders_insert_is_limited() -> None:
    labels = {"a": "x" * 60}
    fits = {"args": ["{{.Labels.a}}"] * (FILLED_CHARACTERS // 60)}

    assert derived(a_service_body(labels=labels, model=fits)).startswith("[")
    reason = derived(a_service_body(labels=labels, model={"args": [*fits["args"], "{{.Labels.a}}"]}))
    assert reason.startswith("placeholders such as {{.Labels.a}} would insert more than 262144 characters")


@pytest.mark.parametrize("order", [1, -1])
def test_a_child_of_many_items_is_compared_in_bounded_steps(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item is most often found at its place; where all stand in another one, the child counts as changed."""
    rendered = [{"name": f"E{number}", "value": "x"} for number in range(1000)]
    compared = 0

    def counted(observed: Any, wanted: Any) -> bool:
        nonlocal compared
        compared += 1
        return matches(observed, wanted)

    monkeypatch.setattr("isvc_operator.plan.diff.matches", counted)

    assert matches({"env": rendered[::order]}, {"env": rendered}) == (order == 1)
    assert compared < 160_000


async def test_a_bug_of_the_operator_is_reported_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("oh\nno")

    cluster: Cluster = cluster_with(a_service_body(), a_runtime_body())
    monkeypatch.setattr("isvc_operator.decide.render", fail)

    with pytest.raises(Unexpected):
        await cluster.reconcile()

    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReconcileFailed")
    assert ready["message"] == "the operator has failed (ZeroDivisionError); see its log"


async def test_a_service_whose_status_is_of_another_kind_gets_one_of_ours() -> None:
    body = a_service_body(predictor={"containers": 5}, status={"conditions": "none", "modelStatus": [1]})
    cluster = cluster_with(body, a_runtime_body())

    await cluster.reconcile()

    assert cluster.condition("Ready")["reason"] == "InvalidPredictorSpec"


def test_a_storage_uri_that_is_too_long_is_reported() -> None:
    fits = "s3://b/" + "a" * (URI_CHARACTERS - 7)

    assert derived(a_service_body(model={"storageUri": fits})).startswith("[")
    assert derived(a_service_body(model={"storageUri": f"{fits}a"})).endswith("…' has more than 8192 characters")


# --- what pods say ---------------------------------------------------------------------------------------

SAID = st.text(st.characters(exclude_categories=()), max_size=200) | st.sampled_from(
    ["a\nReady: True", "\r\n\r\n", "\x1b]0;title\x07", "x" * 100_000, "\n" * 5000, "\ud800", "a\u2028b\u202ec", " "]
)


@given(said=SAID, log=SAID, progress=SAID, reason=SAID, crashed=st.booleans(), refused=st.booleans())
def test_whatever_a_pod_says_is_quoted_and_bounded(
    said: str, log: str, progress: str, reason: str, *, crashed: bool, refused: bool
) -> None:
    body = a_crashed_pod() if crashed else a_pod(phase="Failed")
    body["status"] |= {"reason": reason, "message": said}
    for status in body["status"].get("containerStatuses", ()):
        status["state"] = {"terminated": {"exitCode": 1, "message": said, "reason": reason}}
    refusal = {"type": "ReplicaFailure", "status": "True", "message": said} if refused else {"type": "Other"}
    rollout = rollout_of({"metadata": {}, "status": {"conditions": [refusal]}})
    component = seen(rollout=rollout, pods=[body], failure=first_failure([body]), log=log, progress=progress)
    service = parse_inference_service(a_service_body())

    status = derive_status(Observation(service, None, [component]), NOW)

    assert len(json.dumps(status.as_dict())) < 8 * MESSAGE_BYTES
    for item in status.conditions:
        ours, *others = (item.message or "").split("\n")
        assert (item.reason or "a").isalnum()
        assert all(line.isprintable() for line in (ours, *others) for line in line.split("\t"))
        assert all(line.startswith(("| ", "Last log lines:", "Requests are still")) for line in others)
