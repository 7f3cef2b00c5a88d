"""A user of KServe's Python client, who creates, patches, replaces and deletes a service.

Each step prints a line; the next one begins when a line is read. This is a process of its own, because importing kserve
takes seconds and warns about much that is not ours.
"""

from __future__ import annotations

import sys

from kserve import (
    KServeClient,
    V1beta1InferenceService,
    V1beta1InferenceServiceSpec,
    V1beta1ModelFormat,
    V1beta1ModelSpec,
    V1beta1PredictorSpec,
)
from kubernetes import client

NAME = "torchserve"


def main(kubeconfig: str, namespace: str, keys: str) -> None:
    kserve = KServeClient(config_file=kubeconfig)

    kserve.create(a_service(namespace, storage_uri="pvc://leeway"))
    said(kserve.is_isvc_ready(NAME, namespace))
    wait_until_ready(kserve, namespace, generation=1)
    said(kserve.get(NAME, namespace)["status"]["url"])

    variable = client.V1EnvVar(name="LEVEL", value="debug")
    resources = client.V1ResourceRequirements(limits={"cpu": 0.5, "memory": "2Gi"}, requests={"cpu": 0.1})
    kserve.patch(NAME, a_service(namespace, storage_uri="pvc://leeway", env=[variable], resources=resources))
    said(kserve.is_isvc_ready(NAME, namespace, expected_generation=2))
    wait_until_ready(kserve, namespace, generation=2)

    kserve.set_credentials("s3", namespace, keys, service_account="models", s3_endpoint="minio:9000", s3_use_https="0")
    kserve.replace(NAME, a_service(namespace, account="models", storage_uri="s3://models/leeway"))
    said(kserve.is_isvc_ready(NAME, namespace, expected_generation=3))
    wait_until_ready(kserve, namespace, generation=3)

    kserve.delete(NAME, namespace)
    said(len(kserve.get(namespace=namespace)["items"]))


def a_service(namespace: str, account: str | None = None, **model: object) -> V1beta1InferenceService:
    """The service with KServe's typed objects, as its documentation makes them."""
    served = V1beta1ModelSpec(model_format=V1beta1ModelFormat(name="pytorch"), **model)
    return V1beta1InferenceService(
        api_version="serving.kserve.io/v1beta1",
        kind="InferenceService",
        metadata=client.V1ObjectMeta(name=NAME, namespace=namespace),
        spec=V1beta1InferenceServiceSpec(predictor=V1beta1PredictorSpec(service_account_name=account, model=served)),
    )


def wait_until_ready(kserve: KServeClient, namespace: str, generation: int) -> None:
    sys.stdin.readline()
    kserve.wait_isvc_ready(NAME, namespace, timeout_seconds=30, polling_interval=1, expected_generation=generation)
    said(f"ready at {generation}")


def said(what: object) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
