"""A server that waits for its predictor: for which, how long, and what it says meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from data_plane.client.address import Address, BadAddress
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.predictor_wait import addresses_of, all_reached, is_wanted


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """On a port that refuses connections until the test listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def address_of(bound: socket.socket) -> Address:
    return Address("http", "127.0.0.1", bound.getsockname()[1])


@contextlib.contextmanager
def opening(bound: socket.socket, after: int) -> Iterator[None]:
    handler, logger = Opens(bound, after), logging.getLogger("transformer_sdk")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


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


def test_an_address_that_can_never_be_reached_is_refused() -> None:
    with pytest.raises(BadAddress, match="p:nine' is no address"):
        addresses_of([asking("p:nine")])


async def test_nothing_is_waited_for_where_nobody_is_asked() -> None:
    assert await all_reached(())


class Opens(logging.Handler):
    """Lets the predictor listen once the wait has been logged so often."""

    def __init__(self, bound: socket.socket, after: int) -> None:
        super().__init__()
        self.bound, self.left = bound, after

    def emit(self, record: logging.LogRecord) -> None:
        self.left -= 1
        if not self.left:
            self.bound.listen()


async def test_it_waits_until_the_last_predictor_takes_connections_and_says_at_once_and_again_for_which(
    bound: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "transformer_sdk")
    with socket.create_server(("127.0.0.1", 0)) as there, opening(bound, after=3):
        assert await all_reached([address_of(there), address_of(bound)], log_every_s=0.1)

    assert caplog.messages == 3 * [
        "waiting for the predictor before the server's ports are opened. "
        f"The predictor at {address_of(bound)} cannot be reached: Connection refused; "
        "see whether it is ready and whether --predictor_host is right."
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_wait(bound: socket.socket, number: signal.Signals) -> None:
    waiting = asyncio.create_task(all_reached([address_of(bound)]))
    await asyncio.sleep(0)
    os.kill(os.getpid(), number)

    assert not await waiting
