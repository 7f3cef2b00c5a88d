"""`kserve.logging`: the loggers that hooks write to, and how a server's log looks."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KSERVE_LOGGER_NAME = "kserve"
KSERVE_TRACE_LOGGER_NAME = "kserve.trace"
KSERVE_LOGGER_FORMAT = (
    "%(asctime)s.%(msecs)03d %(process)s %(name)s %(levelname)s [%(filename)s:%(funcName)s():%(lineno)s] %(message)s"
)
KSERVE_TRACE_LOGGER_FORMAT = "%(asctime)s.%(msecs)03d %(process)s %(name)s %(message)s"
KSERVE_LOGGER_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"

_SDK_LOGGER_NAME = "transformer_sdk"

KSERVE_LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "kserve": {
            "class": "transformer_sdk.log_lines.IndentingFormatter",
            "format": KSERVE_LOGGER_FORMAT,
            "datefmt": KSERVE_LOGGER_DATE_FORMAT,
        },
        "kserve_trace": {
            "class": "transformer_sdk.log_lines.IndentingFormatter",
            "format": KSERVE_TRACE_LOGGER_FORMAT,
            "datefmt": KSERVE_LOGGER_DATE_FORMAT,
        },
    },
    "handlers": {
        name: {"class": "logging.StreamHandler", "formatter": name, "stream": "ext://sys.stderr"}
        for name in ("kserve", "kserve_trace")
    },
    "loggers": {
        KSERVE_LOGGER_NAME: {"handlers": ["kserve"], "level": "INFO", "propagate": False},
        KSERVE_TRACE_LOGGER_NAME: {"handlers": ["kserve_trace"], "level": "INFO", "propagate": False},
        _SDK_LOGGER_NAME: {"handlers": ["kserve"], "level": "INFO", "propagate": False},
    },
}

logger = logging.getLogger(KSERVE_LOGGER_NAME)
trace_logger = logging.getLogger(KSERVE_TRACE_LOGGER_NAME)


def configure_logging(log_config: Mapping[str, Any] | str | None = None) -> None:
    """From a dictConfig, or a file of one (.json, .yaml with PyYAML installed), or a fileConfig; else as KServe's.

    Without an argument a logger that is configured already stays as it is.
    """
    if log_config is None:
        if not logger.hasHandlers():
            logging.config.dictConfig(KSERVE_LOG_CONFIG)
    elif isinstance(log_config, Mapping):
        logging.config.dictConfig(dict(log_config))
    elif log_config.endswith(".json"):
        logging.config.dictConfig(json.loads(Path(log_config).read_text()))
    elif log_config.endswith((".yaml", ".yml")):
        import yaml

        logging.config.dictConfig(yaml.safe_load(Path(log_config).read_text()))
    else:
        logging.config.fileConfig(log_config, disable_existing_loggers=False)
