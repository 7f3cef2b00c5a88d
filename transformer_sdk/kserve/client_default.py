"""The timeout of a call for which none is given: the client's own."""

from __future__ import annotations

from typing import Any

USE_CLIENT_DEFAULT: Any = object()
