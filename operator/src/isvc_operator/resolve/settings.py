"""Fields of the predictor that become environment variables of its server.

Each variable sets a flag that both shipped runtimes have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isvc_operator.api.components import BatcherSpec, PredictorSpec


@dataclass(frozen=True)
class ServerSetting:
    """A number given for ``field`` that the server reads from ``variable``."""

    field: str
    variable: str
    value: int

    @property
    def usable(self) -> bool:
        """Whether it is passed to the server."""
        return is_usable(self.value)


def is_usable(number: int) -> bool:
    """Whether a number of a spec has an effect: as with KServe, zero or less keeps the default."""
    return number > 0


def settings_of(predictor: PredictorSpec) -> Iterator[ServerSetting]:
    """Yield every setting that is given, usable or not."""
    batcher = predictor.batcher or BatcherSpec()
    given = (
        ("batcher.maxBatchSize", "MAX_BATCH_SIZE", batcher.max_batch_size),
        ("batcher.maxLatency", "MAX_LATENCY", batcher.max_latency),
        ("batcher.timeout", "BATCH_TIMEOUT", batcher.timeout),
        ("timeout", "REQUEST_TIMEOUT", predictor.timeout),
    )
    for field, variable, value in given:
        if value is not None:
            yield ServerSetting(f"spec.predictor.{field}", variable, value)
