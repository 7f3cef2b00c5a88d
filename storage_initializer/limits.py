"""Bounds of what comes from outside: servers, archives, the node's cache. ``docs/limits.md`` lists them."""

from __future__ import annotations

# --- servers

CONNECT_TIMEOUT_S = 15.0
"""Seconds for a connection."""
READ_TIMEOUT_S = 30.0
"""Seconds until the next byte of an answer."""
MAX_ATTEMPTS = 8
"""How often a request is sent."""
MAX_BACKOFF_S = 10.0
"""Seconds between two attempts."""
TRICKLE_WINDOW = 2
"""Read timeouts that make the time over which a server's rate is taken."""
MIN_RATE = 1 << 10
"""Bytes a second; what is slower counts as no answer."""
MAX_REDIRECTS = 10
"""From one address to another, for one request."""
MAX_HEADER_LINE = 64 << 10
"""Bytes of one header of an answer."""
MAX_HEADERS = 100
"""Headers of one answer."""
MAX_INTERIM_ANSWERS = 10
"""Answers ``100 Continue`` before the one that counts."""
MAX_ANSWER = 16 << 20
"""Bytes of an answer that is no file: a page of a listing, a token."""
MAX_FILES = 250_000
"""Files of one source."""
MAX_PAGES = 10_000
"""Pages of one listing."""
MAX_UNSIZED = 64 << 30
"""Bytes of a file whose server does not tell its length."""
