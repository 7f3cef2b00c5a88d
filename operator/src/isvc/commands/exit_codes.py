"""The exit codes of ``isvc``, the same in every command; docs/commands/README.md has the table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EXIT_FAILED: Final = 1  # a process or a request has failed, or the cluster has no such service
EXIT_INVALID: Final = 2  # a file or a flag is invalid, or a service in it cannot be served
EXIT_NO_EFFECT: Final = 3  # everything can be served, but a part has no effect
EXIT_INTERRUPTED: Final = 130  # Ctrl-C

MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "what was asked for is done, and there is nothing to report",
        EXIT_FAILED: "a process, a request or a check has failed, a cluster cannot be reached or has no such service, "
        "or something differs; the output says which",
        EXIT_INVALID: "a file, a flag or a setting is invalid or missing, or a service cannot be served; nothing was "
        "done. `isvc diff` ends so with every error, as its 1 says that something differs",
        EXIT_NO_EFFECT: "done, but a part of the input has no effect, or there are warnings; the output names them",
        EXIT_INTERRUPTED: "interrupted by Ctrl-C; `isvc operator`, which serves until then, ends with 0, and `isvc run`"
        " with 1 while a service has failed or was refused",
    }
)
