"""A change that is meant for a share of the callers, on a real API server: held back, then rolled out as written."""

from __future__ import annotations

from typing import Any

from tests.support.namespace import Namespace
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"


def template(namespace: Namespace) -> Any:
    return namespace.wait_for("deployment", PREDICTOR)["spec"]["template"]


def apply(namespace: Namespace, model: dict[str, Any], **predictor: Any) -> None:
    story = {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://leeway"}
    namespace.apply_story(model={**story, **model}, **predictor)


def test_the_pods_change_only_when_no_canary_is_requested_any_more(
    running_operator: None, namespace: Namespace
) -> None:
    apply(namespace, {"env": [{"name": "OLD", "value": "1"}]})
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")
    before = template(namespace)

    apply(namespace, {"env": [{"name": "NEW", "value": "1"}]}, canaryTrafficPercent=20, minReplicas=2)
    namespace.wait_for_condition("ChangeHeldBack", "True", "CanaryNotSupported")
    held = namespace.wait_for("deployment", PREDICTOR)
    apply(namespace, {}, canaryTrafficPercent=100, minReplicas=2)

    assert (held["spec"]["template"], held["spec"]["replicas"]) == (before, 2)
    own = before["spec"]["containers"][0]["env"]
    after = [item for item in own if item["name"] != "OLD"]
    eventually(lambda: template(namespace)["spec"]["containers"][0]["env"] == after, "the change is rolled out")
    server = before["spec"]["containers"][0]
    assert template(namespace)["spec"] == {**before["spec"], "containers": [{**server, "env": after}]}
    eventually(lambda: not namespace.condition("ChangeHeldBack"), "nothing is held back")
