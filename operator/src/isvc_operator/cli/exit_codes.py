"""The exit codes of ``isvc``; docs/validate.md has the table."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1  # a process or a request has failed
EXIT_INVALID: Final = 2  # a file or a flag is invalid, or a service in it cannot be served
EXIT_NO_EFFECT: Final = 3  # everything can be served, but a part has no effect
