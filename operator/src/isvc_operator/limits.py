"""Every bound of the operator and of ``isvc run``: sizes, counts and times of what comes from outside."""

from __future__ import annotations

from typing import Final

# --- texts in a status, an Event or a log ---------------------------------------------------------------
LINE_BYTES: Final = 1024  # of a text from outside that is quoted as one line

# --- the ingress of `isvc run` --------------------------------------------------------------------------
INGRESS_CONNECTIONS: Final = 512  # open at a time
INGRESS_IDLE_SECONDS: Final = 60.0  # for a request's head, for the next part of its body, and between two requests
INGRESS_LINGER_SECONDS: Final = 2.0  # for what a caller still sends who has had the answer already
INGRESS_HEADER_BYTES: Final = 8190  # of the request line, and of each field
INGRESS_HEADERS: Final = 128  # fields of a request
