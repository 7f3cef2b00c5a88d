"""An API server without a cluster, for the tests that need no pods."""

from __future__ import annotations

from tests.integration.conftest import apiserver, assets

__all__ = ["apiserver", "assets"]  # fixtures
