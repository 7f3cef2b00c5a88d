"""The time of this machine, as Kubernetes writes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now(seconds: float = 0) -> str:
    """Return the time as RFC 3339, in seconds; with ``seconds`` one that is so much later."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
