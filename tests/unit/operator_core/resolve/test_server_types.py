"""What KServe's runtimes get from the operator, as they are installed (docs/kserve.md)."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.resolve.component import Component
from isvc_operator.resolve.runtime import image_for, server_type_of
from tests.support.builders import a_resolved, a_runtime, a_service
from tests.support.kserve_runtimes import kserve_runtime, kserve_runtimes

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
ARGUMENTS_OF_TRITON = [
    "tritonserver",
    "--model-store=/mnt/models",
    "--grpc-port=9000",
    "--http-port=8080",
]


def predictor_of(runtime: str, format_: str, *, annotated: bool = True, **model: Any) -> Component:
    """The predictor of a service that names one of KServe's runtimes; it has no protocol unless it is given."""
    fields = {"protocolVersion": None, "modelFormat": {"name": format_}, "runtime": runtime, **model}
    return a_resolved(a_service(model=fields), kserve_runtime(runtime, annotated=annotated)).predictor


def env_of(predictor: Component) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in predictor.server["env"]}


# --- the type --------------------------------------------------------------------------------------------

RECOGNIZED_BY_NAME = {
    "kserve-mlserver": "mlserver",
    "kserve-torchserve": "torchserve",
    "kserve-tritonserver": "tritonserver",
    "kserve-tensorflow-serving": "tensorflow-serving",
    "kserve-huggingfaceserver": "huggingfaceserver",
    "kserve-vllmserver": "vllmserver",
}


def test_older_runtimes_of_kserve_are_recognized_by_their_names() -> None:
    types = {name: server_type_of(runtime) for name, runtime in kserve_runtimes(annotated=False).items()}

    assert {name: type_ for name, type_ in types.items() if type_} == RECOGNIZED_BY_NAME


def test_the_annotation_wins_over_the_name() -> None:
    assert server_type_of(a_runtime("kserve-torchserve", server_type="mar")) == "mar"


# --- MLServer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotated", [True, False])
@pytest.mark.parametrize(
    ("format_", "implementation"),
    [
        ("sklearn", "mlserver_sklearn.SKLearnModel"),
        ("xgboost", "mlserver_xgboost.XGBoostModel"),
        ("lightgbm", "mlserver_lightgbm.LightGBMModel"),
        ("mlflow", "mlserver_mlflow.MLflowRuntime"),
    ],
)
def test_mlserver_is_told_its_model_and_by_a_label_its_implementation(
    format_: str, implementation: str, annotated: bool
) -> None:
    predictor = predictor_of("kserve-mlserver", format_, annotated=annotated)

    assert predictor.labels == {"modelClass": implementation}
    assert env_of(predictor) == {
        "INFERENCE_SERVICE_NAME": "torchserve",
        "MLSERVER_MODEL_NAME": "torchserve",
        "MLSERVER_MODEL_URI": "/mnt/models",
        "MLSERVER_MODEL_IMPLEMENTATION": implementation,
        "MLSERVER_HTTP_PORT": "8080",
        "MLSERVER_GRPC_PORT": "9000",
    }


def test_mlserver_without_a_model_loads_none_at_its_start() -> None:
    env = env_of(predictor_of("kserve-mlserver", "sklearn", storageUri=None))

    assert (env["MLSERVER_LOAD_MODELS_AT_STARTUP"], "MLSERVER_MODEL_URI" in env) == ("false", False)


def test_the_users_variables_win_over_mlservers_defaults_and_these_over_the_runtimes() -> None:
    runtime = a_runtime(
        "theirs",
        server_type="mlserver",
        container={
            "env": [{"name": name, "value": "runtime"} for name in ("MLSERVER_MODEL_NAME", "MLSERVER_MODEL_URI")]
        },
    )
    service = a_service(model={"env": [{"name": "MLSERVER_MODEL_NAME", "value": "user"}]})

    assert env_of(a_resolved(service, runtime).predictor) == {
        "INFERENCE_SERVICE_NAME": "torchserve",
        "MLSERVER_MODEL_NAME": "user",
        "MLSERVER_MODEL_URI": "/mnt/models",
    }


def test_mlserver_is_ready_when_it_has_loaded_its_model() -> None:
    ready = {"httpGet": {"path": "/v2/health/ready", "port": 8080}}
    grpc = [{"name": "h2c", "containerPort": 9000}]

    assert predictor_of("kserve-mlserver", "sklearn").server["readinessProbe"] == {
        **ready,
        "periodSeconds": 5,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    }
    assert (
        predictor_of("kserve-mlserver", "sklearn", ports=grpc).server["readinessProbe"]["httpGet"] == ready["httpGet"]
    )


def test_the_users_own_probe_of_mlserver_is_kept() -> None:
    probe = {"tcpSocket": {"port": 8080}}

    assert predictor_of("kserve-mlserver", "sklearn", readinessProbe=probe).server["readinessProbe"] == probe


# --- Triton ----------------------------------------------------------------------------------------------


def test_triton_with_a_model_gets_nothing_in_addition() -> None:
    assert predictor_of("kserve-tritonserver", "triton").server["args"] == ARGUMENTS_OF_TRITON


def test_triton_without_a_model_starts_without_one() -> None:
    predictor = predictor_of("kserve-tritonserver", "triton", storageUri=None, args=["--log-verbose=1"])

    assert predictor.server["args"] == [*ARGUMENTS_OF_TRITON, "--log-verbose=1", "--model-control-mode=explicit"]


def test_the_users_own_mode_of_triton_is_kept() -> None:
    predictor = predictor_of("kserve-tritonserver", "triton", storageUri=None, args=["--model-control-mode=poll"])

    assert predictor.server["args"] == [*ARGUMENTS_OF_TRITON, "--model-control-mode=poll"]


# --- the annotation that KServe's webhook adds ------------------------------------------------------------


def test_the_format_is_an_annotation_for_placeholders_and_not_for_the_pods() -> None:
    predictor = predictor_of("kserve-predictiveserver", "xgboost")

    assert predictor.server["args"] == [
        "--model_name=torchserve",
        "--model_dir=/mnt/models",
        "--http_port=8080",
        "--framework=xgboost",
    ]
    assert "modelFormat" not in predictor.annotations


# --- the image -------------------------------------------------------------------------------------------

IMAGES = {
    "no GPU": ("kserve-tensorflow-serving", "tensorflow", {}, "registry.example/tensorflow-serving:1.0"),
    "TensorFlow": ("kserve-tensorflow-serving", "tensorflow", GPU, "registry.example/tensorflow-serving:1.0-gpu"),
    "TorchServe": ("kserve-torchserve", "pytorch", GPU, "registry.example/kserve-torchserve:1.0-gpu"),
    "Hugging Face": ("kserve-huggingfaceserver", "huggingface", GPU, "registry.example/huggingfaceserver:1.0-gpu"),
    "Triton": ("kserve-tritonserver", "triton", GPU, "registry.example/kserve-tritonserver:1.0"),
    "vLLM": ("kserve-vllmserver", "vLLM", GPU, "registry.example/vllmserver:1.0"),
    "vLLM without a GPU": ("kserve-vllmserver", "vLLM", {}, "registry.example/vllmserver-cpu:1.0"),
    "a part of a GPU": (
        "kserve-tensorflow-serving",
        "tensorflow",
        {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}},
        "registry.example/tensorflow-serving:1.0-gpu",
    ),
    "a GPU, and a version": (
        "kserve-tensorflow-serving",
        "tensorflow",
        {**GPU, "runtimeVersion": "1.11.0-gpu"},
        "registry.example/tensorflow-serving:1.11.0-gpu",
    ),
    "an image of the user's for GPUs": (
        "kserve-tensorflow-serving",
        "tensorflow",
        {**GPU, "image": "registry.example/tf:1-gpu"},
        "registry.example/tf:1-gpu",
    ),
}


@pytest.mark.parametrize("annotated", [True, False])
@pytest.mark.parametrize(("runtime", "format_", "model", "image"), IMAGES.values(), ids=IMAGES.keys())
def test_the_image_has_the_tag_that_kserve_gives_it(
    runtime: str, format_: str, model: dict[str, Any], image: str, annotated: bool
) -> None:
    assert predictor_of(runtime, format_, annotated=annotated, **model).server["image"] == image


@pytest.mark.parametrize(
    ("image", "version", "expected"),
    [
        ("registry.example:5000/tf", None, "registry.example:5000/tf"),
        ("registry.example:5000/tf", "2", "registry.example:5000/tf:2"),
        ("tf:1@sha256:0123", None, "tf:1@sha256:0123"),
        ("tf@sha256:0123", "2", "tf@sha256:0123"),
        ("", "2", ""),
    ],
)
def test_an_image_without_a_tag_or_with_a_digest_gets_no_suffix(image: str, version: str | None, expected: str) -> None:
    assert image_for({"image": image, **GPU}, "tensorflow-serving", version) == expected


@pytest.mark.parametrize("model", [GPU, {"runtimeVersion": "0.9.0"}])
def test_a_fixed_image_is_changed_by_neither_a_gpu_nor_a_version(model: dict[str, Any]) -> None:
    runtime = a_runtime(metadata_annotations={"isvc-operator.io/fixed-image": "true"})

    assert a_resolved(a_service(model=model), runtime).predictor.server["image"] == "registry.example/torchserve:1.0"


def test_a_version_is_that_of_the_users_own_image_where_the_runtimes_is_fixed() -> None:
    runtime = a_runtime(metadata_annotations={"isvc-operator.io/fixed-image": "true"})
    service = a_service(model={"runtimeVersion": "2", "image": "registry.example/mine"})

    assert a_resolved(service, runtime).predictor.server["image"] == "registry.example/mine:2"
