"""Bounds of `isvc-mar`, the runtime without Java."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound

BOUNDS: tuple[Bound, ...] = ()
