"""One call of the handler for several requests: their inputs in one list, its results split back to the requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from data_plane.errors import ServingError
from torchserve_compat import frames, values
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse
from torchserve_compat.worker.context import describe_requests
from torchserve_compat.worker.unwrapped import advising

Handle = Callable[[list[Any], Any], Any]
Inputs = TypeVar("Inputs")  # what the handler gets of one request


def refusal(error: ServingError) -> HandlerResponse:
    """Return the response to a request that the handler does not see."""
    return HandlerResponse(error.message.encode(), error.status, frames.REFUSAL)


def serve_readable(
    batch: HandlerBatch,
    read: Callable[[HandlerRequest], Inputs],
    serve: Callable[[HandlerBatch, list[Inputs]], list[HandlerResponse]],
) -> list[HandlerResponse]:
    """Call `serve` with what `read` returns for each request; a ServingError that it raises fails only its request."""
    inputs = []
    refusals = {}
    for index, request in enumerate(batch.requests):
        try:
            inputs.append(read(request))
        except ServingError as error:
            refusals[index] = refusal(error)
    if not refusals:
        return serve(batch, inputs)
    readable = [request for index, request in enumerate(batch.requests) if index not in refusals]
    responses = iter(serve(HandlerBatch(batch.form, readable), inputs) if readable else [])
    return [refusals[index] if index in refusals else next(responses) for index in range(len(batch.requests))]


def call_merged(
    batch: HandlerBatch, inputs: Sequence[Sequence[Any]], handle: Handle, context: Any, *, or_fewer: bool = False
) -> list[list[Any]]:
    """Call the handler once with the inputs of all requests; return each request's own results.

    `or_fewer`: there may be fewer results than inputs.
    """
    describe_requests(batch, context, merged=True)
    merged = [one for of_request in inputs for one in of_request]
    with advising(batch, merged):
        results: Iterator[Any] = iter(values.results_of(handle(merged, context), len(merged), or_fewer=or_fewer))
    return [list(islice(results, len(of_request))) for of_request in inputs]
