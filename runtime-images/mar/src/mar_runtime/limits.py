"""Bounds of the runtime without Java. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Deaths of a model's workers in a row, without a response between them. Those that die together count as one.
MAX_DEATHS = 5

# Seconds before a worker that has died is started anew, the first time in a row.
RESTART_PAUSE = 0.1

# How much longer the pause is each further time.
RESTART_GROWTH = 3

# Seconds that the pause grows to.
MAX_RESTART_PAUSE = 10

# Seconds for which a worker is tried to be started while files, processes or memory are short.
MAX_START_TRIES_TIME = 300

# Seconds in which other models may fail as well, once one has failed at the start.
FAIL_TOO_TIME = 2
