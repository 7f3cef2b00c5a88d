"""Every error that a client can see, each with its HTTP status and the component that raised it.

All code below the servers raises these; only `server.app` (HTTP) and `server.grpc` turn them into responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from data_plane.limits import MAX_ERROR_TEXT
from data_plane.nearest import nearest


class ServingError(Exception):
    """Base class of all errors of a request."""

    status = 500
    retry_after_s: int | None = None
    component = "server"
    details: Mapping[str, object] = {}  # further fields of the error's document
    headers: tuple[tuple[bytes, bytes], ...] = ()  # further headers of the HTTP response
    # The rest of the request is still on its way, so that its connection cannot carry another one.
    ends_connection = False

    @property
    def message(self) -> str:
        """The text for the client and the log; it may quote the request."""
        text = str(self)
        return text if len(text) <= MAX_ERROR_TEXT else f"{text[:MAX_ERROR_TEXT]}… ({len(text)} characters)"


class ClientGone(Exception):
    """The client disconnected. No response can be sent, so this is not a ServingError and has no status."""


class InvalidRequest(ServingError):
    """The request is invalid; sending it again will fail again."""

    status = 400


class UnreadableRequest(InvalidRequest):
    """The data on the connection is not an HTTP request."""

    ends_connection = True


class NotLocal(ServingError):
    """The request is allowed to clients in the server's own pod only."""

    status = 403

    def __init__(self) -> None:
        super().__init__(
            "Models are loaded and unloaded from within the pod only; send the request to 127.0.0.1 there, or through "
            "kubectl port-forward."
        )


class NotFound(ServingError):
    status = 404


class UnknownModel(NotFound):
    """The path is valid, but no such model is served here."""

    def __init__(self, model: str, served: Iterable[str]) -> None:
        names = sorted(served)
        close = nearest(model, names)
        super().__init__(
            f"Model with name {model} does not exist{f'; did you mean {close}?' if close else '.'} "
            f"Models served here: {', '.join(names) or 'none'}."
        )


class UnknownVersion(NotFound):
    """The model is served here, but not in this version."""

    def __init__(self, model: str, version: str, served: Iterable[str]) -> None:
        names = ", ".join(sorted(f"{model} {one}" for one in served))
        super().__init__(f"Model with name {model}, version {version}, does not exist. Models served here: {names}.")


class MethodNotAllowed(ServingError):
    """The path exists, but allows other methods only."""

    status = 405

    def __init__(self, method: str, path: str, allowed: Iterable[str], near: str = "") -> None:
        methods = ", ".join(sorted(allowed))
        self.headers = ((b"allow", methods.encode()),)
        super().__init__(f"{method} is not allowed on {path}; {f'did you mean {near}?' if near else f'use {methods}.'}")


class ClientTooSlow(ServingError):
    """The client took too long to send a request, or to read its response."""

    status = 408
    ends_connection = True


class SequenceLost(ServingError):
    """The state from earlier requests of this sequence is lost."""

    status = 410
    component = "worker"

    def __init__(self, model: str, sequence_id: str) -> None:
        super().__init__(
            f"The worker of model {model} that had sequence {sequence_id} died, and the sequence's state with it; "
            "begin a new one, with another id or with the header ts_request_sequence_start: true."
        )


class BodyTooLarge(ServingError):
    """The request body has more bytes than the server accepts."""

    status = 413
    ends_connection = True

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is over the limit of {limit} bytes (--max-request-size).")


class EncodedBody(ServingError):
    """The body has a content coding, such as gzip, that the server does not decode."""

    status = 415

    def __init__(self, encoding: str) -> None:
        super().__init__(f"The request body is encoded (Content-Encoding: {encoding}); send it as it is, uncompressed.")


class UnprocessableInput(ServingError):
    """The request is well-formed, but its input does not fit this model."""

    status = 422
    component = "model"


class QueueFull(ServingError):
    """The queue of this model is full."""

    status = 429
    retry_after_s = 1
    component = "queue"

    def __init__(self, model: str, limit: int) -> None:
        super().__init__(f"{limit} requests wait for model {model} already (job_queue_size); send it again later.")


class HeadTooLarge(ServingError):
    """The request line and headers have more bytes, or more fields, than the server accepts."""

    status = 431
    ends_connection = True


class InferenceFailed(ServingError):
    """The model failed on the request; `status` is 500 unless the handler chose another."""

    component = "model"

    def __init__(self, message: str, status: int = 500) -> None:
        self.status = status
        super().__init__(message)


class Unsupported(ServingError):
    """The server does not implement this part of the protocol."""

    status = 501


class EncodedTransfer(Unsupported):
    """The body has a transfer coding other than `chunked`, which the server does not decode (RFC 9112, 6.1)."""

    ends_connection = True

    def __init__(self, codings: str) -> None:
        super().__init__(
            f"The request has Transfer-Encoding: {codings}; send the body as it is, chunked or with a length."
        )


class UpstreamError(ServingError):
    """The upstream server returned an error, whose status and message are kept."""

    def __init__(self, component: str, status: int, message: str) -> None:
        self.component = component
        self.status = status
        super().__init__(message)


class UpstreamBroken(ServingError):
    """The connection to the upstream server or process broke in the middle of a request."""

    status = 502


class NotReady(ServingError):
    """The model or server is not ready; the same request may succeed later."""

    status = 503
    retry_after_s = 1


class BuffersFull(ServingError):
    """Requests in progress leave no memory for this one."""

    status = 503
    retry_after_s = 1

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"Requests that are being read or answered hold {limit} bytes already (--max-buffered-bytes); "
            "send it again later."
        )


class TooManyConnections(ServingError):
    """The limit of open connections is reached."""

    status = 503
    retry_after_s = 1
    ends_connection = True

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} connections are open already (--max-connections); connect again later.")


class SequenceQueueFull(NotReady):
    """Too many requests of one sequence wait; the status is TorchServe's."""

    component = "queue"

    def __init__(self, model: str, sequence_id: str, limit: int) -> None:
        super().__init__(
            f"{limit} requests of sequence {sequence_id} wait for model {model} already (maxSequenceJobQueueSize); "
            "wait for their answers."
        )


class TooManySequences(NotReady):
    """The limit of concurrent sequences is reached until one ends; the status is TorchServe's."""

    component = "queue"

    def __init__(self, model: str, limit: int) -> None:
        super().__init__(
            f"Model {model} has {limit} sequences already (maxNumSequence), or as many as the workers that it has "
            "take; a place is free when one has ended (sequenceMaxIdleMSec)."
        )


class DeadlineExceeded(ServingError):
    """The request's deadline passed before there was a response."""

    status = 504
    component = "queue"


class UpstreamTimeout(ServingError):
    """The upstream server or process did not respond in time."""

    status = 504
