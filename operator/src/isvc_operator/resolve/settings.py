"""What the predictor's own fields tell its server, as variables of the server's container.

Each is the variable of a flag that both shipped runtimes have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isvc_operator.api.components import BatcherSpec, PredictorSpec


@dataclass(frozen=True)
class Setting:
    """A number that was given for ``field`` and that the server reads from ``variable``."""

    field: str
    variable: str
    value: int

    @property
    def usable(self) -> bool:
        """Whether it is passed on."""
        return is_usable(self.value)


def is_usable(number: int) -> bool:
    """Whether a number of a spec says anything: as with KServe, zero and less leave the default in force."""
    return number > 0


def settings_of(predictor: PredictorSpec) -> Iterator[Setting]:
    """Every setting that was given, usable or not."""
    batcher = predictor.batcher or BatcherSpec()
    given = (
        ("batcher.maxBatchSize", "MAX_BATCH_SIZE", batcher.max_batch_size),
        ("batcher.maxLatency", "MAX_LATENCY", batcher.max_latency),
        ("batcher.timeout", "BATCH_TIMEOUT", batcher.timeout),
        ("timeout", "REQUEST_TIMEOUT", predictor.timeout),
    )
    for field, variable, value in given:
        if value is not None:
            yield Setting(f"spec.predictor.{field}", variable, value)
