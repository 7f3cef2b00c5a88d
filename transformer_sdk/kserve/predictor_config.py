"""Which predictor a transformer calls, and how."""

from __future__ import annotations

from transformer_sdk.kserve.constants.constants import PredictorProtocol


class PredictorConfig:
    """KServe's arguments, in KServe's order; a protocol of None is v1."""

    def __init__(
        self,
        predictor_host: str,
        predictor_protocol: str | PredictorProtocol | None = PredictorProtocol.REST_V1.value,
        predictor_use_ssl: bool = False,
        predictor_request_timeout_seconds: float = 600,
        predictor_request_retries: int = 0,
        predictor_health_check: bool = False,
    ) -> None:
        self.predictor_host = predictor_host
        self.predictor_protocol: str = PredictorProtocol(predictor_protocol or PredictorProtocol.REST_V1).value
        self.predictor_use_ssl = predictor_use_ssl
        self.predictor_request_timeout_seconds = predictor_request_timeout_seconds
        self.predictor_request_retries = predictor_request_retries
        self.predictor_health_check = predictor_health_check

    @property
    def predictor_base_url(self) -> str:
        """The URL before the protocol's own path."""
        host = str(self.predictor_host)  # None where a server was started without one
        return host if "://" in host else f"{'https' if self.predictor_use_ssl else 'http'}://{host}"

    # --- shorter names for the same

    @property
    def protocol(self) -> str:
        return self.predictor_protocol

    @property
    def timeout(self) -> float:
        return self.predictor_request_timeout_seconds

    @property
    def retries(self) -> int:
        return self.predictor_request_retries

    @property
    def use_ssl(self) -> bool:
        return self.predictor_use_ssl
