"""Bounds of the SDK for transformers, beside those of the server."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound

BOUNDS: tuple[Bound, ...] = ()
