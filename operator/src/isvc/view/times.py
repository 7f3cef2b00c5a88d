"""Times as Kubernetes writes them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def parse_time(text: str | None) -> datetime | None:
    """Return a time of RFC 3339; None if the text is none."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def later(text: str | None, seconds: int | None) -> str | None:
    """Return the time so many seconds after another one; None if one of both is not known, or is not a time."""
    at = parse_time(text)
    try:
        return (at + timedelta(seconds=seconds)).isoformat() if at and seconds is not None else None
    except OverflowError:
        return None
