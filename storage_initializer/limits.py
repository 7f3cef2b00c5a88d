"""Bounds of what comes from outside: servers, archives, the node's cache. ``docs/limits.md`` lists them."""

from __future__ import annotations

# --- servers

CONNECT_TIMEOUT_S = 15.0
"""Seconds for a connection."""
READ_TIMEOUT_S = 30.0
"""Seconds until the next byte of a response."""
MAX_ATTEMPTS = 8
"""How often a request is sent."""
MAX_TIMEOUT_S = 86_400
"""Seconds that either time may be set to."""
MAX_ATTEMPTS_SET = 1000
"""What the attempts may be set to."""
MAX_BACKOFF_S = 10.0
"""Seconds between two attempts."""
TRICKLE_WINDOW = 2
"""Read timeouts that make the time over which a server's rate is taken."""
MIN_RATE = 1 << 10
"""Bytes a second; what is slower counts as no response."""
MAX_REDIRECTS = 10
"""From one address to another, for one request."""
MAX_RESPONSE = 16 << 20
"""Bytes of a response that is not a file, such as a token."""
MAX_FILES = 250_000
"""Files of one source."""
MAX_DEPTH = 100
"""Folders that lie in one another, of a claim or a folder."""
MAX_LISTING_S = 600.0
"""Seconds for the listing of a bucket."""
MAX_REQUEST_S = 3600.0
"""Seconds for one response of an object store: a page of a listing, or a part of an object."""
MAX_UNSIZED = 64 << 30
"""Bytes of a file whose server does not report its length."""
MAX_MD5 = 64 << 20
"""Bytes of an object whose etag is compared as an MD5, where there is no TLS. A larger one has been uploaded in parts,
as a rule, and its etag is none."""

# --- archives, beside those of ``model_archive.limits``

MAX_LINKS = 40
"""Links in a tar that lead to one another, before the file."""
MAX_CONFIG = 1 << 20
"""Bytes of config/config.properties."""
MAX_INSPECTED = 100
"""Archives of a source that `isvc inspect` looks into."""

# --- the node's cache

CACHE_WAIT_S = 1800.0
"""Seconds for another pod to fill it."""
CACHE_ATTEMPTS = 3
"""How often a model is fetched that others push out of the cache before it is used."""
CACHE_READ_ALWAYS = 64 << 20
"""Bytes of an entry that is read whole at each use, in the time that a container takes to start."""

# --- what is said

MAX_REASON = 4096
"""Bytes of a reason: the kubelet reads this much of a termination message."""
MAX_LOG_LINE = 8192
"""Characters of a line of the log."""
