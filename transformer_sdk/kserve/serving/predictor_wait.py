"""Wait until the predictor accepts connections, before the server's ports are opened.

So a pod is not ready before its predictor is reachable, and its log names the problem. If a predictor goes away
later, responses report it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable, Mapping

from data_plane.client.address import Address
from transformer_sdk.kserve.model import BaseKServeModel, Model

log = logging.getLogger(__name__)

VARIABLE = "WAIT_FOR_PREDICTOR"
_TRY_EVERY_S = 0.25
_LOG_EVERY_S = 5.0
_CONNECT_S = 5.0


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether to wait. The operator sets the variable for transformers and explainers."""
    return environment.get(VARIABLE, "").lower() == "true"


def addresses_of(models: Iterable[BaseKServeModel]) -> tuple[Address, ...]:
    """Return the addresses of the models' predictors; raises BadAddress."""
    configs = (model.predictor_config for model in models if isinstance(model, Model))
    urls = {config.predictor_base_url: None for config in configs if config and config.predictor_host}
    return tuple(map(Address.parse, urls))


async def all_reached(addresses: Iterable[Address]) -> bool:
    """Return True when each has accepted a connection; False if SIGTERM or SIGINT comes first."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    reaching = asyncio.gather(*(_reached(address) for address in addresses))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait((reaching, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not reaching.done():
        reaching.cancel()
        return False
    reaching.result()
    return True


async def _reached(address: Address) -> None:
    logged = -_LOG_EVERY_S
    while reason := await _error_of(address):
        if asyncio.get_running_loop().time() - logged >= _LOG_EVERY_S:
            logged = asyncio.get_running_loop().time()
            log.warning("waiting for the predictor before the server's ports are opened. %s", reason)
        await asyncio.sleep(_TRY_EVERY_S)
    log.info("the predictor at %s takes connections", address)


async def _error_of(address: Address) -> str:
    from data_plane.client.failures import unreachable  # aiohttp takes a while to import

    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.host, address.port), _CONNECT_S)
    except (OSError, asyncio.TimeoutError) as error:
        return unreachable(address, error).message
    writer.close()
    return ""
