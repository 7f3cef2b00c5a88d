"""What KServe's API takes although its CRD does not say so, and what it refuses: documents, and what KServe does.

Before its schema is asked, KServe's webhook reads an object into Go's types and writes it again. So numbers become
quantities, null items empty ones, and what is empty is left out. The API server drops null fields before that.
"""

from __future__ import annotations

from typing import Any

from tests.support.sample_services import model, runtime, server_container, service

Document = dict[str, Any]

HALF = {"limits": {"cpu": 0.5, "memory": 1.5e9}, "requests": {"cpu": 0.1, "memory": 1e9}}
FRAMEWORK = {"pytorch": {"storageUri": "pvc://leeway"}}


def predictor(**fields: Any) -> Document:
    """A service with a model, and these fields of its predictor."""
    return service("a", predictor=model() | fields)


def of_model(**fields: Any) -> Document:
    return service("a", predictor=model(**fields))


def own(**fields: Any) -> Document:
    """A service with a container of the user's own, and these fields of it."""
    return service("a", predictor={"containers": [server_container(**fields)]})


def scaled(target: Any) -> Document:
    metric = {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": target}}}
    return predictor(minReplicas=1, maxReplicas=2, autoScaling={"metrics": [metric]})


def storage_container(**fields: Any) -> Document:
    container = {"name": "storage-initializer", "image": "registry.example.com/initializer:1"} | fields
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": "a"},
        "spec": {"container": container, "supportedUriFormats": [{"prefix": "abacus://"}]},
    }


QUANTITIES: dict[str, tuple[Document, str]] = {
    "fractions of a model's resources": (of_model(resources=HALF), "writes 500m"),
    "fractions of a framework's resources": (service("a", predictor={"pytorch": {"resources": HALF}}), "writes 500m"),
    "fractions of a container's resources": (own(resources=HALF), "writes 500m"),
    "fractions of an init container's resources": (
        predictor(initContainers=[{"name": "b", "image": "c", "resources": HALF}]),
        "writes 500m",
    ),
    "fractions of a transformer's resources": (
        service("a", predictor=model(), transformer={"containers": [server_container(resources=HALF)]}),
        "writes 500m",
    ),
    "fractions of a pod's resources": (predictor(resources={"limits": {"cpu": 4.5}}), "writes 4500m"),
    "a fraction as overhead": (predictor(overhead={"cpu": 0.25}), "writes 250m"),
    "a number as the size of an emptyDir": (
        predictor(volumes=[{"name": "b", "emptyDir": {"sizeLimit": 1.5e9}}]),
        "writes 1500M",
    ),
    "a number as the size of an ephemeral claim": (
        predictor(
            volumes=[
                {
                    "name": "b",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1.5e9}}}
                        }
                    },
                }
            ]
        ),
        "writes 1500M",
    ),
    "a fraction as the divisor of a variable": (
        own(
            env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 0.001}}}],
        ),
        "writes 1m",
    ),
    "a number as the target of a metric": (scaled(1e9), "takes it"),
    "a fraction as the target of a metric": (scaled(1.5), "refuses it, as the only place with a quantity"),
    "a fraction as a tolerance": (
        predictor(minReplicas=1, maxReplicas=2, autoScaling={"behavior": {"scaleUp": {"tolerance": 0.1}}}),
        "writes 100m",
    ),
    "an exponent": (of_model(resources={"limits": {"cpu": "1.5e0", "memory": "4e9"}}), "writes 1500e-3"),
    "fractions of a runtime's resources": (
        runtime(containers=[server_container(resources=HALF)]),
        "refuses it: no webhook writes runtimes again",
    ),
    "fractions of a storage container's resources": (
        storage_container(resources=HALF),
        "refuses it: no webhook writes storage containers again",
    ),
}

OTHERS: dict[str, tuple[Document, str]] = {
    # What is null.
    "null in place of components": (
        service("a", predictor=model(), transformer=None, explainer=None, canary=None),
        "leaves them out",
    ),
    "null in place of a predictor's parts": (
        predictor(
            minReplicas=None, containers=None, volumes=None, labels=None, logger=None, storageUris=None, workerSpec=None
        ),
        "leaves them out",
    ),
    "null in place of a model's parts": (
        of_model(resources=None, env=None, args=None, ports=None, livenessProbe=None, runtime=None),
        "leaves them out",
    ),
    "null in place of a model": (service("a", predictor=FRAMEWORK | {"model": None, "sklearn": None}), "leaves it out"),
    "null amounts": (of_model(resources={"limits": {"cpu": None}, "requests": None}), "leaves them out"),
    "null values of maps": (
        predictor(labels={"b": None}, annotations={"b": None}, nodeSelector={"b": None}),
        "leaves them out",
    ),
    "null parameters of a storage": (
        service(
            "a",
            predictor={
                "model": {"modelFormat": {"name": "pytorch"}, "storageUri": "s3://b/c", "storage": {"parameters": None}}
            },
        ),
        "leaves them out",
    ),
    "null labels and annotations": (
        service("a", predictor=model()) | {"metadata": {"name": "a", "labels": None, "annotations": {"b": None}}},
        "leaves them out",
    ),
    "a null status": (service("a", predictor=model()) | {"status": None}, "leaves it out"),
    "a null value of a variable": (
        of_model(env=[{"name": "A", "value": None, "valueFrom": None}]),
        "leaves it out",
    ),
    "a null emptyDir": (predictor(volumes=[{"name": "b", "emptyDir": None}]), "leaves it out, which is an emptyDir"),
    "null among a model's arguments": (of_model(args=["--a", None]), "writes an empty text"),
    "null among a container's words": (own(command=["serve", None], args=[None]), "writes empty texts"),
    "null among a logger's headers": (
        predictor(logger={"mode": "all", "url": "http://b", "metadataHeaders": [None], "metadataAnnotations": [None]}),
        "writes empty texts",
    ),
    "null among pull secrets": (predictor(imagePullSecrets=[None, {"name": "b"}]), "writes one with an empty name"),
    # What is empty.
    "an empty model beside a framework": (
        service("a", predictor=FRAMEWORK | {"model": {}}),
        "writes the framework in its place",
    ),
    "an empty format beside a framework": (
        service("a", predictor=FRAMEWORK | {"model": {"modelFormat": {}}}),
        "writes the framework in its place",
    ),
    "no downloads": (predictor(storageUris=[]), "leaves them out"),
    "no strategy": (predictor(deploymentStrategy={"type": "", "rollingUpdate": None}), "leaves it out"),
    "empty parts of a predictor": (
        predictor(
            securityContext={},
            affinity={},
            nodeSelector={},
            tolerations=[],
            volumes=[],
            containers=[],
            batcher={},
            imagePullSecrets=[],
            labels={},
            annotations={},
            autoScaling={"metrics": [], "behavior": {}},
            workerSpec=None,
        ),
        "leaves them out",
    ),
    "empty parts of a model": (
        of_model(resources={}, env=[], args=[], ports=[], securityContext={}, confidential={}, name="", runtime=None),
        "leaves them out",
    ),
    "an empty framework": (service("a", predictor={"pytorch": {}}), "serves what the image has"),
    "no canaries": (service("a", predictor=model(), canary=[]), "leaves them out"),
    # What the webhook fills in.
    "a container without a name": (service("a", predictor={"containers": [{"image": "b"}]}), "names it"),
    "a container with an empty name": (
        service("a", predictor={"containers": [{"name": "", "image": "b"}]}),
        "names it",
    ),
    "a transformer's container without a name": (
        service("a", predictor=model(), transformer={"containers": [{"image": "b"}]}),
        "names it",
    ),
    "a download without a folder": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://b/c"}]}),
        "writes /mnt/models",
    ),
    # Whole numbers, however they are written.
    "pods, written with a fraction": (predictor(minReplicas=1.0), "writes 1"),
}

TAKEN = QUANTITIES | OTHERS

NO_QUANTITY = "this is not a quantity; write one such as 500m or 2Gi"
AT = "spec.predictor.model.resources.limits.cpu"


def of_cpu(amount: Any) -> Document:
    return of_model(resources={"limits": {"cpu": amount}})


# Refused by KServe's API, and by ours: by the API server, or in the status. The place, what is said there.
REFUSED: dict[str, tuple[Document, str, str]] = {
    "a text as an amount": (of_cpu("abc"), AT, "not a quantity"),
    "an amount with another unit": (of_cpu("1GG"), AT, "not a quantity"),
    "an empty amount": (of_cpu(""), AT, "not a quantity"),
    "a truth as an amount": (of_cpu(True), AT, NO_QUANTITY),
    "an object as an amount": (of_cpu({"amount": 1}), AT, NO_QUANTITY),
    "an empty object as an amount": (of_cpu({}), AT, NO_QUANTITY),
    "a list as an amount": (of_cpu([1]), AT, NO_QUANTITY),
    "a truth as overhead": (predictor(overhead={"cpu": True}), "spec.predictor.overhead.cpu", NO_QUANTITY),
    "a list as the size of an emptyDir": (
        predictor(volumes=[{"name": "b", "emptyDir": {"sizeLimit": []}}]),
        "spec.predictor.volumes[0].emptyDir.sizeLimit",
        NO_QUANTITY,
    ),
    "a truth as the target of a metric": (
        scaled(True),
        "spec.predictor.autoScaling.metrics[0].resource.target.averageValue",
        NO_QUANTITY,
    ),
    "a truth among a container's resources": (
        own(resources={"limits": {"memory": False}}),
        "spec.predictor.containers[0].resources.limits.memory",
        NO_QUANTITY,
    ),
    "a truth among a runtime's resources": (
        runtime(containers=[server_container(resources={"limits": {"memory": False}})]),
        "spec.containers[0].resources.limits.memory",
        NO_QUANTITY,
    ),
    "a number as a text": (of_model(runtimeVersion=0.12), "spec.predictor.model.runtimeVersion", "of type string"),
    "a number as a version": (
        of_model(modelFormat={"name": "pytorch", "version": 1}),
        "spec.predictor.model.modelFormat.version",
        "of type string",
    ),
    "a number as a value": (
        of_model(env=[{"name": "A", "value": 1}]),
        "spec.predictor.model.env[0].value",
        "of type string",
    ),
    "a truth as a value": (
        of_model(env=[{"name": "A", "value": True}]),
        "spec.predictor.model.env[0].value",
        "of type string",
    ),
    "a number as an argument": (of_model(args=["--port", 80]), "spec.predictor.model.args[1]", "of type string"),
    "a truth as a label": (predictor(labels={"b": True}), "spec.predictor.labels.b", "of type string"),
    "a number as an annotation": (predictor(annotations={"b": 1}), "spec.predictor.annotations.b", "of type string"),
    "a text as a number": (predictor(minReplicas="1"), "spec.predictor.minReplicas", "of type integer"),
    "half a pod": (predictor(minReplicas=0.5), "spec.predictor.minReplicas", "of type integer"),
    "a text as a truth": (predictor(hostNetwork="true"), "spec.predictor.hostNetwork", "of type boolean"),
    "half a pod more": (
        predictor(deploymentStrategy={"rollingUpdate": {"maxSurge": 0.5}}),
        "spec.predictor.deploymentStrategy.rollingUpdate.maxSurge",
        "of type integer,string",
    ),
    "an object for a list": (predictor(tolerations={}), "spec.predictor.tolerations", "of type array"),
    "a list for an object": (of_model(resources=[]), "spec.predictor.model.resources", "of type object"),
    "an empty metric": (predictor(scaleMetric=""), "spec.predictor.scaleMetric", "Unsupported value"),
    "an empty logger": (predictor(logger={}), "spec.predictor.logger.mode", "Required value"),
    "an empty transformer": (service("a", predictor=model(), transformer={}), "spec.transformer", "nothing to run"),
    "an empty predictor": (service("a", predictor={}), "spec.predictor", "nothing to serve"),
    "an empty folder of a download": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://b/c", "mountPath": ""}]}),
        "spec.predictor.storageUris[0].mountPath",
        "should match",
    ),
    # KServe writes an empty item, and no Deployment is made of it.
    "null among variables": (of_model(env=[None]), "spec.predictor.model.env[0]", "of type object"),
    "null among tolerations": (predictor(tolerations=[None]), "spec.predictor.tolerations[0]", "of type object"),
    "null among volumes": (predictor(volumes=[None]), "spec.predictor.volumes[0]", "of type object"),
    "null among containers": (
        service("a", predictor={"containers": [server_container(), None]}),
        "spec.predictor.containers[1]",
        "of type object",
    ),
    "null among downloads": (
        service("a", predictor={"pytorch": {}, "storageUris": [None]}),
        "spec.predictor.storageUris[0]",
        "of type object",
    ),
    "null among metrics": (
        predictor(autoScaling={"metrics": [None]}),
        "spec.predictor.autoScaling.metrics[0]",
        "of type object",
    ),
}
