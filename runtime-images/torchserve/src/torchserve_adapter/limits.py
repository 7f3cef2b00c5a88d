"""Bounds of TorchServe behind its adapter. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Deaths of a worker in a row, without a response of its model between them.
MAX_DEATHS = 5

# Seconds for which TorchServe tries to start a worker: five minutes (maxRetryTimeoutInSec), and its longest pause.
MAX_WITHOUT_WORKER = 300 + 144

# Connections to the port on which models are registered.
MAX_MANAGEMENT_CONNECTIONS = 64

# Bytes of a line of TorchServe's log that are read and passed on: handlers print what they are sent.
MAX_LOG_LINE = 64 * 1024
