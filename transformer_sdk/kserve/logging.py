"""`kserve.logging`: the loggers that hooks write to, and how a server's log looks."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_sdk.kserve.constants.constants import KSERVE_LOGLEVEL

KSERVE_LOGGER_NAME = "kserve"
KSERVE_TRACE_LOGGER_NAME = "kserve.trace"
KSERVE_LOGGER_FORMAT = (
    "%(asctime)s.%(msecs)03d %(process)s %(name)s %(levelname)s [%(filename)s:%(funcName)s():%(lineno)s] %(message)s"
)
KSERVE_TRACE_LOGGER_FORMAT = "%(asctime)s.%(msecs)03d %(process)s %(name)s %(message)s"
KSERVE_LOGGER_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"

_SERVER_FORMAT = "%(asctime)s.%(msecs)03d %(process)s %(name)s %(levelname)s %(message)s"
_OWN_LOGGER_NAMES = ("transformer_sdk", "data_plane")

# KServe's keys, all of them: programs change single values. KServe's server is uvicorn, whose formatters have fields of
# their own; ours writes no lines as uvicorn, and formats those of a program that does as plain ones.
KSERVE_LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        name: {"()": "data_plane.log_lines.IndentingFormatter", "fmt": text, "datefmt": KSERVE_LOGGER_DATE_FORMAT}
        for name, text in {
            "kserve": KSERVE_LOGGER_FORMAT,
            "kserve_trace": KSERVE_TRACE_LOGGER_FORMAT,
            "uvicorn": _SERVER_FORMAT,
            "uvicorn_access": _SERVER_FORMAT,
        }.items()
    },
    "handlers": {
        name: {"formatter": name, "class": "logging.StreamHandler", "stream": f"ext://sys.{stream}"}
        for name, stream in {
            "kserve": "stderr",
            "kserve_trace": "stderr",
            "uvicorn": "stderr",
            "uvicorn_access": "stdout",
        }.items()
    },
    "loggers": {
        KSERVE_LOGGER_NAME: {"handlers": ["kserve"], "level": KSERVE_LOGLEVEL, "propagate": False},
        KSERVE_TRACE_LOGGER_NAME: {"handlers": ["kserve_trace"], "level": KSERVE_LOGLEVEL, "propagate": False},
        **{name: {"handlers": ["kserve"], "level": "INFO", "propagate": False} for name in _OWN_LOGGER_NAMES},
        "uvicorn": {"handlers": ["uvicorn"], "level": "INFO", "propagate": False},
        "uvicorn.error": {"level": "INFO"},
        "uvicorn.access": {"handlers": ["uvicorn_access"], "level": "INFO", "propagate": False},
    },
}

logger = logging.getLogger(KSERVE_LOGGER_NAME)
trace_logger = logging.getLogger(KSERVE_TRACE_LOGGER_NAME)


def configure_logging(log_config: Mapping[str, Any] | str | None = None) -> None:
    """Configure logging by a dictConfig, a file of one (.json, .yaml with PyYAML), or a fileConfig; else as KServe.

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
