"""What hooks raise, under KServe's names and with KServe's status codes; each is an error of this SDK too.

Any other exception is a 500 with its type and text, and its traceback in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from data_plane import errors

_LOWEST_ERROR = 400


class ModelMissingError(Exception):
    """There is no model at this path."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class InferenceError(errors.ServingError, RuntimeError):
    """500, or the HTTP status that is given as a number; anything else given is put before the message."""

    component = "model"

    def __init__(self, reason: str, status: str | int | None = None, debug_details: object = None) -> None:
        self.reason = reason
        self.debug_details = debug_details
        given = None if status is None else str(status)
        self.status = int(given) if given and given.isdigit() and int(given) >= _LOWEST_ERROR else 500
        super().__init__(reason if given is None else f"[{given}] {reason}")


class InvalidInput(errors.InvalidRequest, ValueError):
    """400."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ModelNotFound(errors.NotFound):
    """404."""

    def __init__(self, model_name: str | None = None) -> None:
        self.reason = f"Model with name {model_name} does not exist."
        super().__init__(self.reason)


class _Detailed(errors.NotReady, RuntimeError):
    def __init__(self, message: str, detail: str | None) -> None:
        self.error_msg = f"{message} {detail}" if detail else message
        super().__init__(self.error_msg)


class ModelNotReady(_Detailed):
    """503."""

    def __init__(self, model_name: str, detail: str | None = None) -> None:
        self.model_name = model_name
        super().__init__(f"Model with name {model_name} is not ready.", detail)


class ServerNotReady(_Detailed):
    """503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Server is not ready.", detail)


class ServerNotLive(_Detailed):
    """503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Server is not live.", detail)


class UnsupportedProtocol(errors.Unsupported):
    """501."""

    def __init__(self, protocol_version: str | None = None) -> None:
        self.reason = f"Unsupported protocol {protocol_version}."
        super().__init__(self.reason)


class WorkersShouldBeLessThanMaxWorkersError(Exception):
    """More workers are asked for than there may be."""

    def __init__(self, max_workers: int | None = None) -> None:
        self.reason = f"Workers cannot be greater than {max_workers}"
        super().__init__(self.reason)


class NoModelReady(RuntimeError):
    """`ModelServer.start` was given models, and none of them can serve requests."""

    def __init__(self, models: Sequence[object], detail: str | None = None) -> None:
        self.models = models
        self.detail = detail
        names = [str(getattr(model, "name", model)) for model in models]
        said = f"Model with name {names[0]} is" if len(names) == 1 else f"Models with names {','.join(names)} are"
        super().__init__(f"{said} not ready." + (f" {detail}" if detail else ""))
