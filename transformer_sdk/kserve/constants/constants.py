"""The constants of KServe that model servers and transformers use."""

from __future__ import annotations

import os
from enum import Enum

KSERVE_MODEL_SERVER_NAME = "kserve"
KSERVE_LOGLEVEL = os.environ.get("KSERVE_LOGLEVEL", "INFO").upper()
KSERVE_TLS_CERT_FILE_ENV = "KSERVE_TLS_CERT_FILE"
KSERVE_TLS_KEY_FILE_ENV = "KSERVE_TLS_KEY_FILE"

DEFAULT_HTTP_PORT = 8080
DEFAULT_HTTPS_PORT = 8443
DEFAULT_GRPC_PORT = 8081
MAX_GRPC_MESSAGE_LENGTH = 8 * 1024 * 1024

V1_ROUTE_PREFIX = "/v1"
V2_ROUTE_PREFIX = "/v2"
EXPLAINER_BASE_URL_FORMAT = "{0}://{1}"
INFERENCE_CONTENT_LENGTH_HEADER = "inference-header-content-length"


class PredictorProtocol(Enum):
    """The protocol between a transformer and its predictor."""

    REST_V1 = "v1"
    REST_V2 = "v2"
    GRPC_V2 = "grpc-v2"


class ModelType(Enum):
    EXPLAINER = 1
    PREDICTOR = 2
