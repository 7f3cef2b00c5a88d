"""Bounds of the operator and of `isvc run`."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound

BOUNDS: tuple[Bound, ...] = ()
