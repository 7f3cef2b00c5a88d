"""The status, the error text and the metadata that a client of a gRPC call receives.

Here errors become responses, as they do in `runtime-images/common/src/data_plane/server/app.py` for HTTP.
"""

from __future__ import annotations

import logging
from typing import NoReturn

import grpc

from data_plane.errors import ServingError
from data_plane.log_lines import one_line
from data_plane.messages import encodable, text_of
from data_plane.model import Call
from data_plane.server.timing import SERVER_TIMING, server_timing

log = logging.getLogger(__name__)

REQUEST_ID = "x-request-id"
# In bytes. Messages travel among the headers, three bytes for one, and clients refuse headers of more than 8 KiB.
_MAX_MESSAGE = 2000
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    410: grpc.StatusCode.ABORTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


Context = grpc.aio.ServicerContext[bytes, bytes]


def code_of(error: Exception) -> grpc.StatusCode:
    """Return gRPC's code for an error."""
    status = error.status if isinstance(error, ServingError) else 500
    return _CODES.get(status, grpc.StatusCode.INTERNAL)


def trailing_metadata(call: Call) -> tuple[tuple[str, str], ...]:
    """Return the request id and, if the client asks for it, the time of each stage."""
    timing = server_timing(call.headers, call.timings)
    return ((REQUEST_ID, call.id), (SERVER_TIMING, timing)) if timing else ((REQUEST_ID, call.id),)


async def abort(context: Context, code: grpc.StatusCode, error: Exception, *, call: Call, what: str) -> NoReturn:
    """End the call with the error as its status."""
    metadata = list(trailing_metadata(call))
    if isinstance(error, ServingError):
        metadata.append(("x-component", error.component))
        if error.retry_after_s:
            metadata.append(("retry-after", str(error.retry_after_s)))
    text = error_text(error, call, what)
    if isinstance(error, ServingError):
        error.__traceback__ = error.__cause__ = error.__context__ = None  # its frames hold the message
    await context.abort(code, text, tuple(metadata))


def error_text(error: Exception, call: Call, what: str) -> str:
    """Log an error, and return the text of it that the client reads."""
    if isinstance(error, ServingError):
        level = logging.WARNING if error.status >= 500 else logging.INFO
        log.log(
            level, "%s ended with %d: %s (request %s)", what, error.status, one_line(error.message), one_line(call.id)
        )
        message = error.message
    else:
        log.error("%s: unexpected error (request %s)", what, one_line(call.id), exc_info=error)
        message = f"{type(error).__name__} : {text_of(error)}"
    return encodable(message).encode()[:_MAX_MESSAGE].decode(errors="ignore")
