"""What the operator gives a transformer is what KServe's model server takes, and ours."""

from __future__ import annotations

import argparse

import pytest
from kserve import model_server as kserves

from isvc_operator.resolve.transformer import HEALTH_CHECK
from tests.support.builders import a_resolved, a_runtime, a_service
from transformer_sdk.kserve import model_server as ours
from transformer_sdk.kserve.serving import predictor_wait

PARSERS = {"kserve": kserves.parser, "our SDK": ours.parser}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS.keys())
def test_both_take_every_flag(parser: argparse.ArgumentParser) -> None:
    transformer = {"containers": [{"image": "t", "args": [HEALTH_CHECK]}], "containerConcurrency": 2, "timeout": 30}
    service = a_service(model={"protocolVersion": "v2"}, spec={"transformer": transformer})
    component = a_resolved(service, a_runtime(protocols=["v2"])).transformer
    assert component is not None

    taken, left = parser.parse_known_args(component.server["args"])

    assert left == []
    assert (taken.model_name, taken.predictor_host, taken.http_port, taken.workers) == (
        *("torchserve", "torchserve-predictor.models", 8080, 2),
    )
    assert (taken.predictor_protocol, taken.enable_predictor_health_check) == ("v2", True)
    assert taken.predictor_request_timeout_seconds == 30


def test_ours_waits_for_the_predictor_in_a_transformer_and_in_an_explainer() -> None:
    wrapper = {"containers": [{"image": "t"}]}
    resolved = a_resolved(a_service(spec={"transformer": wrapper, "explainer": wrapper}), a_runtime())

    for component in resolved.components:
        environment = {item["name"]: item["value"] for item in component.server["env"]}
        assert predictor_wait.is_wanted(environment) is (component is not resolved.predictor)
