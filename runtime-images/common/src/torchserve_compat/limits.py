"""Bounds of the packages that archives require. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Seconds to install the packages of an archive. Packages of gigabytes may take long on a slow network.
INSTALL_TIME = 1800

# Bytes of the folder in which servers keep installed packages.
MAX_PACKAGES = 10 << 30
