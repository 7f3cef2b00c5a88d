"""When a transformer says that it is ready, and why not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.support.sdk_models import NOBODY, Ready
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.served import ServedModel
from transformer_sdk.testing import FakePredictor, TransformerServer


async def test_who_asks_a_model_can_be_cancelled_while_it_says_so() -> None:
    """Else the server would wait for the task that asks again and again when it ends."""
    said = asyncio.Event()
    served = ServedModel("m", cast(Any, Ready()), cast(Any, None), given=Ready(), is_ready_hook=said.wait)
    asking = asyncio.ensure_future(served.health())
    await asyncio.sleep(0)
    said.set()
    for _ in range(2):
        await asyncio.sleep(0)  # the hook has returned, and who asked has not been told yet

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


def test_with_the_predictors_health_check_a_model_is_ready_when_its_predictor_is() -> None:
    with FakePredictor(lambda instances: instances) as predictor:
        config = PredictorConfig(predictor.host, predictor_health_check=True)
        with TransformerServer(Ready(), predictor=config) as server:
            up = server.get("/v2/health/ready")

    assert (up.status, up.json()) == (200, {"ready": True})


def test_with_the_predictors_health_check_a_model_waits_and_says_once_for_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = PredictorConfig(NOBODY.predictor_host, predictor_health_check=True)
    with TransformerServer(Ready(), predictor=config) as server:
        down = [server.get("/v2/health/ready") for _ in range(2)]

    reason = (
        "waits for its predictor: The predictor at http://127.0.0.1:1 cannot be reached: Connection refused; "
        "see whether it is ready and whether --predictor_host is right."
    )
    assert [(reply.status, reply.json()["models"]) for reply in down] == [(503, {"m": reason})] * 2
    assert caplog.messages.count(f"model m is not ready: {reason}") == 1
