"""Bounds of the storage-initializer."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound

BOUNDS: tuple[Bound, ...] = ()
