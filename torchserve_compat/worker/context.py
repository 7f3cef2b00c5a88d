"""What a handler finds in its context about the requests of a batch. Needs the `torchserve` wheel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ts.context import RequestProcessor

from torchserve_compat.frames import Batch, Form, Request


class NeedsOwnBatch(Exception):
    """The handler asked for something that differs between the requests that were merged for it."""


class Headers(RequestProcessor):  # type: ignore[misc]  # the wheel has no types
    """One request's headers, with those that TorchServe adds; a name may be written in any case.

    They are read when the handler asks for one: few do.
    """

    def __init__(self, request: Request, form: Form) -> None:
        super().__init__(None)
        self._request = request
        self._form = form

    @functools.cached_property
    def _known(self) -> dict[str, Any]:
        headers: dict[str, Any] = {part.name: {"content-type": part.content_type} for part in self._request.parts}
        if self._form in ("raw", "raw-explain"):
            headers["url_path"] = ""
        headers.update((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._request.headers)
        headers["explain"] = str(self._form in ("explain", "raw-explain"))
        return headers

    def get_request_property(self, key: str) -> Any:
        """The value of a header, None if there is none."""
        return self._known.get(key, self._known.get(key.lower()))

    def get_request_properties(self) -> dict[str, Any]:
        """All headers."""
        return self._known


class MergedHeaders(Headers):
    """The headers of requests whose instances were merged.

    The handler cannot know which instance is whose: a header that is not the same for all would reach the wrong ones,
    and so would a status or a header of the answer.
    """

    def __init__(self, requests: Sequence[Request], form: Form) -> None:
        super().__init__(requests[0], form)
        self._requests = requests

    def get_request_property(self, key: str) -> Any:
        """The value that the header has in all requests; raises NeedsOwnBatch if there are several."""
        value = super().get_request_property(key)
        if any(Headers(other, self._form).get_request_property(key) != value for other in self._requests[1:]):
            raise NeedsOwnBatch(f"it reads the header {key}")
        return value

    def get_request_properties(self) -> Any:
        """Raises NeedsOwnBatch: all headers are never the same."""
        raise NeedsOwnBatch("it reads all headers")

    def report_status(self, code: Any, reason_phrase: Any = None) -> None:  # noqa: ARG002
        """Raises NeedsOwnBatch: the status is one request's."""
        raise NeedsOwnBatch("it sets the status of an answer")

    def add_response_property(self, key: str, value: str) -> None:  # noqa: ARG002
        """Raises NeedsOwnBatch: the header is one request's."""
        raise NeedsOwnBatch("it sets a header of an answer")


def describe_requests(batch: Batch, context: Any, *, merged: bool) -> None:
    """Fill the handler's context for this batch."""
    requests = batch.requests
    context.request_ids = {index: request.id for index, request in enumerate(requests)}
    if merged and len(requests) > 1:
        # Whatever index the handler asks for, all requests are meant.
        context.request_processor = [MergedHeaders(requests, batch.form)] * len(requests)
    else:
        context.request_processor = [Headers(request, batch.form) for request in requests]
    if context.metrics is not None:
        context.metrics.request_ids = context.request_ids
