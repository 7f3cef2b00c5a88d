"""The predictor of the server that runs, for models that were made without one."""

from __future__ import annotations

from contextvars import ContextVar

from transformer_sdk.kserve.predictor_config import PredictorConfig

_predictor_config: ContextVar[PredictorConfig | None] = ContextVar("predictor_config", default=None)


def set_predictor_config(config: PredictorConfig) -> None:
    """Set the predictor of everything that runs in this context from now on."""
    _predictor_config.set(config)


def get_predictor_config() -> PredictorConfig | None:
    """None where no server has been made."""
    return _predictor_config.get()
