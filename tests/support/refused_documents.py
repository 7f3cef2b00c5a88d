"""Documents that the API server refuses: those that break a rule, with the place and the message; and wrong shapes."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.components import FRAMEWORKS
from tests.support.sample_services import model, runtime, server_container, service

TOO_LONG = (
    "characters are too long for the name of a service, with spec.predictor.name: at most 48 are possible, because the "
    "label app of its pods is isvc.<name>-predictor, and Kubernetes limits a label to 63; choose a shorter name"
)
NO_FORMAT = "the model has no format; give modelFormat a name, such as pytorch"
NO_PYTHONPATH = "PYTHONPATH is not allowed, because it could replace modules of the server; remove it"

BROKEN_RULES: dict[str, tuple[dict[str, Any], str, str]] = {
    "name with a digit first": (
        service("1st", predictor=model()),
        "metadata.name",
        "must start with a letter and contain only lower-case letters",
    ),
    "name with a dot": (service("a.b", predictor=model()), "metadata.name", "must start with a letter"),
    "name too long": (service("a" * 49, predictor=model()), "metadata.name", f"49 {TOO_LONG}"),
    "name too long with the predictor's": (
        service("a" * 45, predictor={"name": "main"} | model()),
        "metadata.name",
        f"50 {TOO_LONG}",
    ),
    "name too long for a transformer": (
        service("a" * 47, predictor=model(), transformer={"containers": [server_container()]}),
        "metadata.name",
        "47 characters are too long for the name of a service with a transformer: at most 46 are possible, because the "
        "label app of its pods is isvc.<name>-transformer, and Kubernetes limits a label to 63; choose a shorter name",
    ),
    "nothing to serve": (service("a", predictor={}), "spec.predictor", "nothing to serve: give the predictor a model"),
    "no model format": (
        service("a", predictor={"model": {"storageUri": "pvc://a"}}),
        "spec.predictor.model.modelFormat",
        NO_FORMAT,
    ),
    "a model format without a name": (
        service("a", predictor={"model": {"modelFormat": {"version": "1"}}}),
        "spec.predictor.model.modelFormat",
        NO_FORMAT,
    ),
    "empty containers": (service("a", predictor={"containers": []}), "spec.predictor", "nothing to serve"),
    "two frameworks": (
        service("a", predictor={"sklearn": {}, "pytorch": {}}),
        "spec.predictor",
        f"only one of {', '.join(FRAMEWORKS)} may be given",
    ),
    "model and server container": (
        service("a", predictor=model() | {"containers": [server_container()]}),
        "spec.predictor.containers",
        "a model and a container named kserve-container are both given; remove the model",
    ),
    "framework and server container": (
        service("a", predictor={"pytorch": {}, "containers": [server_container()]}),
        "spec.predictor.containers",
        "a model and a container named kserve-container are both given; remove the model",
    ),
    "storageUri and storageUris": (
        service("a", predictor=model() | {"storageUris": [{"uri": "s3://a/b"}]}),
        "spec.predictor.storageUris",
        "move storageUri into storageUris",
    ),
    "name on a model": (
        service("a", predictor=model(name="mine")),
        "spec.predictor.model.name",
        "not allowed here",
    ),
    "name on a framework": (
        service("a", predictor={"pytorch": {"name": "mine"}}),
        "spec.predictor.pytorch.name",
        "not allowed here",
    ),
    "storageUri and storage.path": (
        service("a", predictor=model(storage={"path": "b"})),
        "spec.predictor.model.storage",
        "storageUri and storage.path are both given; remove one of them",
    ),
    "root as a mount path": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://a/b", "mountPath": "/"}]}),
        "spec.predictor.storageUris[0].mountPath",
        "must be a folder below /",
    ),
    "mount path that climbs": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://a/b", "mountPath": "/a/../b"}]}),
        "spec.predictor.storageUris[0].mountPath",
        "must be a folder below /",
    ),
    "more at least than at most": (
        service("a", predictor=model() | {"minReplicas": 3, "maxReplicas": 2}),
        "spec.predictor.minReplicas",
        "greater than maxReplicas; raise maxReplicas or lower minReplicas",
    ),
    "more at least than at most in a transformer": (
        service(
            "a",
            predictor=model(),
            transformer={"minReplicas": 3, "maxReplicas": 2, "containers": [server_container()]},
        ),
        "spec.transformer.minReplicas",
        "greater than maxReplicas; raise maxReplicas or lower minReplicas",
    ),
    "transformer without a container": (
        service("a", predictor=model(), transformer={"minReplicas": 1}),
        "spec.transformer",
        "nothing to run: give the transformer a container with an image",
    ),
    "explainer without anything": (
        service("a", predictor=model(), explainer={}),
        "spec.explainer",
        "give the explainer either art or containers",
    ),
    "explainer with both": (
        service("a", predictor=model(), explainer={"art": {}, "containers": [server_container()]}),
        "spec.explainer",
        "give the explainer either art or containers",
    ),
    "two worker containers": (
        service("a", predictor=model() | {"workerSpec": {"containers": [{}, {}]}}),
        "spec.predictor.workerSpec.containers",
        "workerSpec may have only one container",
    ),
    "canaries with more than everything": (
        service(
            "a",
            predictor=model(),
            canary=[
                {"predictor": {"name": "b"} | model(), "trafficPercent": 60},
                {"predictor": {"name": "c"} | model(), "trafficPercent": 60},
            ],
        ),
        "spec.canary",
        "add up to more than 100",
    ),
    "canary without a name": (
        service("a", predictor=model(), canary=[{"predictor": model()}]),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "canary with the stable name": (
        service("a", predictor={"name": "b"} | model(), canary=[{"predictor": {"name": "b"} | model()}]),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "two canaries of one name": (
        service("a", predictor=model(), canary=[{"predictor": {"name": "b"} | model()}] * 2),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "canary that scales by itself": (
        service("a", predictor=model(), canary=[{"predictor": {"name": "b", "maxReplicas": 3} | model()}]),
        "spec.canary[0]",
        "a canary does not scale by itself",
    ),
    "PYTHONPATH in a model's environment": (
        service("a", predictor=model(env=[{"name": "PYTHONPATH", "value": "/mine"}])),
        "spec.predictor.model.env",
        NO_PYTHONPATH,
    ),
    "PYTHONPATH in a framework's environment": (
        service("a", predictor={"pytorch": {"env": [{"name": "A"}, {"name": "PYTHONPATH", "value": ""}]}}),
        "spec.predictor.pytorch.env",
        NO_PYTHONPATH,
    ),
    "PYTHONPATH in a container": (
        service("a", predictor={"containers": [server_container(), {"name": "b", "env": [{"name": "PYTHONPATH"}]}]}),
        "spec.predictor.containers[1].env",
        NO_PYTHONPATH,
    ),
    "PYTHONPATH in an init container": (
        service("a", predictor=model() | {"initContainers": [{"name": "b", "env": [{"name": "PYTHONPATH"}]}]}),
        "spec.predictor.initContainers[0].env",
        NO_PYTHONPATH,
    ),
    "PYTHONPATH in a transformer": (
        service(
            "a",
            predictor=model(),
            transformer={"containers": [server_container(env=[{"name": "PYTHONPATH", "value": "/mine"}])]},
        ),
        "spec.transformer.containers[0].env",
        NO_PYTHONPATH,
    ),
    "PYTHONPATH in a runtime": (
        runtime(containers=[server_container(env=[{"name": "PYTHONPATH", "value": "/mine"}])]),
        "spec.containers[0].env",
        NO_PYTHONPATH,
    ),
    "STORAGE_URI of a transformer in the predictor's pod": (
        service(
            "a",
            predictor=model()
            | {"containers": [{"name": "transformer-container", "env": [{"name": "STORAGE_URI", "value": "s3://a"}]}]},
        ),
        "spec.predictor.containers",
        "transformer-container sets STORAGE_URI, but shares the predictor's pod and its models",
    ),
    "a protocol that no server of one's own may speak": (
        service("a", predictor={"containers": [server_container(env=[{"name": "PROTOCOL", "value": "grpc"}])]}),
        "spec.predictor.containers",
        "the first container sets PROTOCOL to something else than v1 or v2",
    ),
    "a confidential model from nowhere": (
        service("a", predictor={"pytorch": {"confidential": {"enabled": True, "resourceId": "kbs:///a/b/c"}}}),
        "spec.predictor.pytorch.confidential",
        "confidential.enabled needs a storageUri",
    ),
    "art with storageUri and storageUris": (
        service(
            "a",
            predictor=model(),
            explainer={"art": {"storageUri": "s3://a/b"}, "storageUris": [{"uri": "s3://a/b"}]},
        ),
        "spec.explainer.storageUris",
        "art.storageUri and storageUris are both given",
    ),
    "canary beside no model": (
        service("a", predictor={"containers": [server_container()]}, canary=[{"predictor": {"name": "b"} | model()}]),
        "spec.canary",
        "a canary needs a predictor with a model beside it",
    ),
    "canary with more pods than the stable predictor": (
        service("a", predictor=model(), canary=[{"predictor": {"name": "b", "minReplicas": 2} | model()}]),
        "spec.canary",
        "a canary has a higher minReplicas than spec.predictor, which has 1 if it names none",
    ),
    "two priorities of a format": (
        runtime(
            supportedModelFormats=[
                {"name": "abacus", "version": "1", "autoSelect": True, "priority": 1},
                {"name": "abacus", "version": "2", "autoSelect": True, "priority": 2},
            ]
        ),
        "spec.supportedModelFormats",
        "a model format has two different priorities",
    ),
}

WRONG_SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "no predictor": (service("a"), "spec.predictor: Required value"),
    "text for a number": (
        service("a", predictor=model() | {"minReplicas": "1"}),
        'spec.predictor.minReplicas: Invalid value: "string"',
    ),
    "a number below zero": (
        service("a", predictor=model() | {"containerConcurrency": -1}),
        "spec.predictor.containerConcurrency: Invalid value: -1",
    ),
    "an unknown metric": (
        service("a", predictor=model() | {"scaleMetric": "latency"}),
        'spec.predictor.scaleMetric: Unsupported value: "latency"',
    ),
    "an unknown logger mode": (
        service("a", predictor=model() | {"logger": {"mode": "some"}}),
        'spec.predictor.logger.mode: Unsupported value: "some"',
    ),
    "a logger without a mode": (
        service("a", predictor=model() | {"logger": {"url": "http://a"}}),
        "spec.predictor.logger.mode: Required value",
    ),
    "a predictor name in capitals": (
        service("a", predictor=model() | {"name": "Main"}),
        "spec.predictor.name: Invalid value",
    ),
    "more canary traffic than all": (
        service("a", predictor=model() | {"canaryTrafficPercent": 101}),
        "spec.predictor.canaryTrafficPercent: Invalid value: 101",
    ),
    "a confidential model with an address of another form": (
        service("a", predictor=model(confidential={"enabled": True, "resourceId": "kbs:///a/b"})),
        "spec.predictor.model.confidential.resourceId: Invalid value",
    ),
    "a number as the value of a variable": (
        service("a", predictor=model(env=[{"name": "A", "value": 1}])),
        'spec.predictor.model.env[0].value: Invalid value: "integer"',
    ),
    "no quantity of a model's resources": (
        service("a", predictor=model(resources={"limits": {"cpu": "abc"}, "requests": {"memory": "1GG"}})),
        'spec.predictor.model.resources.limits.cpu: Invalid value: "abc": spec.predictor.model.resources.limits.cpu in '
        "body should match '^[+-]?(",
    ),
    "no quantity of a container's resources": (
        service("a", predictor={"containers": [server_container(resources={"requests": {"memory": "1 Gi"}})]}),
        'spec.predictor.containers[0].resources.requests.memory: Invalid value: "1 Gi"',
    ),
    "no quantity of an emptyDir": (
        service("a", predictor=model() | {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1 GB"}}]}),
        'spec.predictor.volumes[0].emptyDir.sizeLimit: Invalid value: "1 GB"',
    ),
    "no quantity of a pod's overhead": (
        service("a", predictor=model() | {"overhead": {"cpu": ""}, "resources": {"limits": {"cpu": "much"}}}),
        'spec.predictor.overhead.cpu: Invalid value: ""',
    ),
    "no quantity of a metric": (
        service(
            "a",
            predictor=model()
            | {
                "autoScaling": {
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "much"}},
                        }
                    ]
                }
            },
        ),
        'spec.predictor.autoScaling.metrics[0].resource.target.averageValue: Invalid value: "much"',
    ),
    "no quantity of a runtime's container": (
        runtime(containers=[server_container(resources={"limits": {"nvidia.com/gpu": "one"}})]),
        'spec.containers[0].resources.limits.nvidia.com/gpu: Invalid value: "one"',
    ),
}
