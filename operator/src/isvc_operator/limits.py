"""Every bound of the operator and of ``isvc run``: sizes, counts and times of what comes from outside."""

from __future__ import annotations

from typing import Final

# --- one object, such as an InferenceService -------------------------------------------------------------
NESTING: Final = 32  # levels of objects and lists inside of one another
VALUES: Final = 20_000  # fields and items, on all levels
SECRETS: Final = 100  # that a service account lists: they are read one by one
URI_CHARACTERS: Final = 8192  # of a storageUri
FILLED_CHARACTERS: Final = 256 * 1024  # that placeholders such as {{.Labels.x}} add to a container

# --- the API server -------------------------------------------------------------------------------------
API_RESPONSE_SECONDS: Final = 30.0  # for the answer to a request of the operator's

# --- texts in a status, an Event or a log ---------------------------------------------------------------
NAMED: Final = 20  # fields, problems or objects that one message lists
MESSAGE_BYTES: Final = 10 * 1024  # of a condition's message
EVENT_BYTES: Final = 1024  # of an Event's message: what events.k8s.io allows in a note
LOG_READ_BYTES: Final = 64 * 1024  # of a container's log that are read
LOG_BYTES: Final = 4096  # of a container's log, and of what it left as its last words, that are shown
PROGRESS_BYTES: Final = 200  # of the line in which a storage-initializer says how far it is
LINE_BYTES: Final = 1024  # of a text from outside that is quoted as one line

# --- processes of `isvc run` ----------------------------------------------------------------------------
OUTPUT_LINE_BYTES: Final = 64 * 1024  # of what a process prints that are passed on as one line

# --- the ingress of `isvc run` --------------------------------------------------------------------------
INGRESS_CONNECTIONS: Final = 400  # open at a time; each needs two of the 1024 descriptors that a process may have
INGRESS_IDLE_SECONDS: Final = 60.0  # for a request's head, for the next part of its body, and between two requests
INGRESS_UNREAD_SECONDS: Final = 60.0  # for a caller to read more of its answer
INGRESS_LINGER_SECONDS: Final = 2.0  # for what a caller still sends who has had the answer already
INGRESS_HEADER_BYTES: Final = 8190  # of the request line, and of each field
INGRESS_HEADERS: Final = 128  # fields of a request
