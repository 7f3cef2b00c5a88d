"""Imports without garbage collections."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage: an import of torch creates hundreds of thousands of objects, and little of it is garbage.

    Later collections do not look through them either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
