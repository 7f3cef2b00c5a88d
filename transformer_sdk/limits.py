"""Bounds of the data plane: what a client can make the server hold, do or wait for. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Bytes of the request line and all headers: proxies take less, and a session's cookies and tokens are far below.
MAX_HEAD = 64 * 1024
