"""The requests of a batch as a handler finds them in its context. Needs the `torchserve` wheel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ts.context import RequestProcessor

from torchserve_compat.frames import Form, HandlerBatch, HandlerRequest


class NeedsOwnBatch(Exception):
    """The handler used something that differs between the merged requests."""


class RequestHeaders(RequestProcessor):  # type: ignore[misc]  # the wheel has no types
    """One request's headers and those that TorchServe adds; names are case-insensitive.

    They are decoded on first use, because few handlers use them.
    """

    def __init__(self, request: HandlerRequest, form: Form) -> None:
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
        """Return the value of a header, or None."""
        return self._known.get(key, self._known.get(key.lower()))

    def get_request_properties(self) -> dict[str, Any]:
        return self._known


class MergedRequestHeaders(RequestHeaders):
    """The headers of requests whose instances were merged.

    The handler cannot know which request an instance belongs to, so a header that is not the same for all requests is
    refused, and so is setting a status or a header of a response.
    """

    def __init__(self, requests: Sequence[HandlerRequest], form: Form) -> None:
        super().__init__(requests[0], form)
        self._requests = requests

    def get_request_property(self, key: str) -> Any:
        """Return the value that the header has in all requests; raises NeedsOwnBatch if they differ."""
        value = super().get_request_property(key)
        if any(RequestHeaders(other, self._form).get_request_property(key) != value for other in self._requests[1:]):
            raise NeedsOwnBatch(f"it reads the header {key}")
        return value

    def get_request_properties(self) -> Any:
        raise NeedsOwnBatch("it reads all headers")

    def report_status(self, code: Any, reason_phrase: Any = None) -> None:  # noqa: ARG002
        raise NeedsOwnBatch("it sets the status of a response")

    def add_response_property(self, key: str, value: str) -> None:  # noqa: ARG002
        raise NeedsOwnBatch("it sets a header of a response")


def describe_requests(batch: HandlerBatch, context: Any, *, merged: bool) -> None:
    requests = batch.requests
    context.request_ids = {index: request.id for index, request in enumerate(requests)}
    if merged and len(requests) > 1:
        # Any index that the handler uses stands for all requests.
        context.request_processor = [MergedRequestHeaders(requests, batch.form)] * len(requests)
    else:
        context.request_processor = [RequestHeaders(request, batch.form) for request in requests]
    if context.metrics is not None:
        context.metrics.request_ids = context.request_ids
