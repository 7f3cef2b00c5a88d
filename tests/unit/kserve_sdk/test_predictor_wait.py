"""A server that waits for its predictor: for which, how long, and what it says meanwhile."""

from __future__ import annotations

import re

import pytest

from data_plane.client.address import Address, BadAddress
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.predictor_wait import addresses_of, all_reached, is_wanted


def asking(host: str | None, protocol: str = "v1", *, tls: bool = False) -> Model:
    return Model("m", predictor_config=PredictorConfig(host, protocol, tls) if host is not None else None)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"WAIT_FOR_PREDICTOR": "true"}, True),
        ({"WAIT_FOR_PREDICTOR": "True"}, True),
        ({"WAIT_FOR_PREDICTOR": "false"}, False),
        ({"WAIT_FOR_PREDICTOR": ""}, False),
    ],
)
def test_it_waits_where_its_environment_says_so(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def test_each_predictor_is_waited_for_once_and_a_model_without_one_for_nobody() -> None:
    models = [asking("p.ns"), asking("p.ns"), asking("q.ns:9000", "grpc-v2", tls=True), asking(""), asking(None)]

    assert addresses_of(models) == (Address("http", "p.ns", 80), Address("https", "q.ns", 9000))


@pytest.mark.parametrize("host", ["p:nine", "[::1", "[p]", "a\N{FULLWIDTH SOLIDUS}b"])
def test_an_address_that_can_never_be_reached_is_refused(host: str) -> None:
    with pytest.raises(BadAddress, match=rf"{re.escape(host)}' is not an address: .*; give HOST or HOST:PORT\.$"):
        addresses_of([asking(host)])


async def test_nothing_is_waited_for_where_nobody_is_asked() -> None:
    assert await all_reached(())
