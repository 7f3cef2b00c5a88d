"""Every limit of the operator: sizes, counts and times of external input."""

from __future__ import annotations

from typing import Final

# --- one object, such as an InferenceService -------------------------------------------------------------
NESTING: Final = 32  # levels of objects and lists
VALUES: Final = 20_000  # fields and items, at all levels
TEXT_BYTES: Final = 256 * 1024  # names of fields and strings, at all levels
LARGE_BYTES: Final = 32 * 1024  # of an object that counts among the large ones of its namespace, as JSON
NAMESPACE_BYTES: Final = 2 * 1024 * 1024  # of all large objects of a namespace
SECRETS: Final = 100  # of a service account, which are read one by one
GRACE_SECONDS: Final = 3600  # for a pod to finish its requests, where its component's timeout asks for more
URI_CHARACTERS: Final = 8192  # of a storageUri
VARIABLES: Final = 250  # of a container
FILLED_CHARACTERS: Final = 256 * 1024  # that placeholders such as {{.Labels.x}} insert into a container

# --- the configuration ----------------------------------------------------------------------------------
ROUTE_HOSTS: Final = 16  # of a service with enableGatewayApi; the schema of an HTTPRoute allows no more

# --- the API server -------------------------------------------------------------------------------------
API_RESPONSE_SECONDS: Final = 30.0  # for the response to a request of the operator
RETRY_AFTER_SECONDS: Final = 30.0  # that an API server may ask requests to wait, at a time
RETRIES_PER_SECOND: Final = 20  # of services whose last reconcile failed, all together
LONGEST_BACKOFF_SECONDS: Final = 60.0  # between two attempts of a service that keeps failing
API_RESPONSE_BYTES: Final = 16 * 1024 * 1024  # of one response; a list that has more is asked for in smaller pages
LIST_BYTES: Final = 48 * 1024 * 1024  # of memory that one page of a list takes, about
WATCH_LINE_BYTES: Final = 16 * 1024 * 1024  # of one event
WATCH_IDLE_SECONDS: Final = 100.0  # without a word on a watch; the API server sends bookmarks, most often one a minute
WATCH_SILENT_SECONDS: Final = 180.0  # without a word on a watch, although it was opened again
RESTORE_SECONDS: Final = 300.0  # at most between two restores of a child that another client changes each time
NOT_KEPT_SECONDS: Final = 3600.0  # until what the API server did not keep of a child is applied again
QUEUE_STILL_SECONDS: Final = 300.0  # while services wait and no reconcile begins or ends

# --- texts in a status, an Event or a log ---------------------------------------------------------------
NAMED: Final = 20  # fields, problems or objects in one message
MESSAGE_BYTES: Final = 10 * 1024  # of a condition's message
EVENT_BYTES: Final = 1024  # of an Event's message: the limit of events.k8s.io for a note
LOG_READ_BYTES: Final = 64 * 1024  # of a container's log that are requested
LOG_BYTES: Final = 4096  # of a container's log or termination message in a status
PROGRESS_BYTES: Final = 200  # of a storage-initializer's line of progress
LINE_BYTES: Final = 1024  # of an external text that is quoted in one line
