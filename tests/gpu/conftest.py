"""These tests import torch; the first import of it must be the one that keeps its warnings quiet."""

from __future__ import annotations

import tests.support.torch_models  # noqa: F401
