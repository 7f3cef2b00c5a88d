"""The service that the current task works on, which the log names in each of its lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class LoggedService(NamedTuple):
    """The namespace and the name of an InferenceService."""

    namespace: str
    name: str


_current: ContextVar[LoggedService | None] = ContextVar("service", default=None)


@contextmanager
def logged_for(namespace: str, name: str) -> Iterator[None]:
    """Name this service in what is logged in the block, also by tasks that it starts."""
    token = _current.set(LoggedService(namespace, name))
    try:
        yield
    finally:
        _current.reset(token)


def logged_service() -> LoggedService | None:
    """Return the service that the current task works on."""
    return _current.get()
