"""Bounds of `kserve-torchserve`, TorchServe behind its adapter."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound

BOUNDS: tuple[Bound, ...] = ()
