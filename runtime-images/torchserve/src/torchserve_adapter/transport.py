"""Sends batches to the workers of one version through TorchServe, and reads their results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import msgspec

from data_plane.client.errors import PredictorBroken, PredictorTimeout
from data_plane.client.http import HttpClient
from data_plane.client.responses import UpstreamResponse
from data_plane.errors import ClientGone, NotReady, ServingError, UpstreamError
from torchserve_adapter.batching import FRAME_BYTES
from torchserve_adapter.errors import (
    COMPONENT,
    ConnectionBroken,
    WorkerTooSlow,
    broken_connections,
    message_of,
)
from torchserve_compat import frames
from torchserve_compat.server.errors import MORE_MEMORY, WorkerBroken
from torchserve_compat.server.stateful import take_sequence
from torchserve_compat.server.transport import OnPiece
from torchserve_compat.wire import Kind, Unframer

_WORKER_DIED = "Worker died."
_KILLED = 507  # by SIGKILL, which TorchServe reports as out of memory
# With useJobTicket, TorchServe refuses requests without an idle worker. A worker is not idle at once after a response.
_NO_IDLE_WORKER = "has no worker to serve inference request"
_RETRY_S = (0.002, 0.25)  # first and longest pause
# The header of a response that TorchServe streams.
_STREAMED = b"ts_stream_next"
_FRAME_HEADERS = (("content-type", frames.CONTENT_TYPE),)


class VersionTransport:
    """Sends frames to one version of a model, at TorchServe's `address`.

    `sequence_header`: the header in which TorchServe expects the sequence of a request, for a model that keeps state.
    """

    def __init__(
        self,
        http: HttpClient,
        address: str,
        path: str,
        model: str,
        *,
        response_timeout_s: float,
        startup_timeout_s: float,
        on_response: Callable[[], None],
        continuous: bool = False,
        sequence_header: str | None = None,
    ) -> None:
        self._http = http
        self._address = address
        self._sequence_header = sequence_header
        self._path = path
        self._model = model
        self._on_response = on_response
        self._continuous = continuous
        self._given_up = False
        self._allowed_s = response_timeout_s
        # TorchServe ends a request whose worker does not respond; this limit applies if TorchServe itself hangs.
        self._timeout_s = startup_timeout_s + response_timeout_s + 30

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        """Return the result of the batch; raises ServingError.

        A running batch is never cancelled: its worker is busy until it is done, even if all clients are gone.
        """
        if self._given_up:
            raise NotReady(f"Model {self._model} has no worker any more.")
        responses: list[frames.HandlerResponse] = []
        seconds = 0.0
        for portion in _portions(batch):
            result = await self._send(portion, is_wanted, on_piece)
            if result.failure:
                return result
            responses += result.responses
            seconds += result.seconds
        return frames.HandlerResult(responses, seconds)

    def give_up(self) -> None:
        """Refuse all further batches: there will be no worker."""
        self._given_up = True

    async def _send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        headers: tuple[tuple[str, str], ...] = _FRAME_HEADERS
        if self._sequence_header:
            sequence, batch = take_sequence(batch)
            headers = (*headers, (self._sequence_header, sequence.decode("latin-1")))
        response = await self._request(frames.encode(batch), headers, is_wanted)
        try:
            if response.header(_STREAMED):
                result = await self._read_stream(response, on_piece)
            else:
                result = frames.decode_result(response.body)
        except msgspec.DecodeError as error:
            raise ConnectionBroken(f"{COMPONENT}: the response cannot be read ({error}).") from error
        self._on_response()
        return result

    async def _read_stream(self, response: UpstreamResponse, on_piece: OnPiece) -> frames.HandlerResult:
        """Pass on the pieces, and return the result after the last one.

        The response is read to its end even without a client, because the worker stays busy. With a running batch,
        TorchServe drops the request when its connection closes.
        """
        received = Unframer()
        try:
            async for chunk in self._chunks(response):
                for kind, _, frame in received.feed(chunk):
                    if kind == Kind.WHOLE:
                        return frames.decode_result(frame)
                    if not on_piece(frames.decode_piece(frame)) and self._continuous:
                        raise ClientGone
        except (ClientGone, asyncio.CancelledError):
            if response.pieces:
                await response.pieces.aclose()
            raise
        raise ConnectionBroken(f"{COMPONENT}: the response ended before its last piece.")

    async def _chunks(self, response: UpstreamResponse) -> AsyncIterator[bytes]:
        """Yield the body, streamed or not; raises the error for a connection that TorchServe closed."""
        if response.pieces is None:
            yield response.body
            return
        last = time.monotonic()
        try:
            async for piece in response.pieces:
                last = time.monotonic()
                yield piece
        except PredictorTimeout as error:
            raise self._silent() from error
        except PredictorBroken as error:  # TorchServe only closes the connection when a worker dies during a response
            raise self._lost_worker(time.monotonic() - last) from error

    async def _request(
        self, frame: bytes, headers: Iterable[tuple[str, str]], is_wanted: Callable[[], bool]
    ) -> UpstreamResponse:
        pause, longest = _RETRY_S
        while True:
            started = time.monotonic()
            response = await self._post(frame, headers)
            if response.status == 200:
                return response
            message = message_of(response.body)
            if _NO_IDLE_WORKER not in message or self._given_up:
                raise self._refusal(response.status, message, time.monotonic() - started)
            if not is_wanted():
                raise ClientGone
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _post(self, frame: bytes, headers: Iterable[tuple[str, str]]) -> UpstreamResponse:
        try:
            with broken_connections():
                return await self._http.send(
                    "POST", self._address, self._path, headers, frame, self._timeout_s, stream=True
                )
        except PredictorTimeout as error:
            raise self._silent() from error

    def _silent(self) -> WorkerTooSlow:
        return WorkerTooSlow(f"{COMPONENT}: model {self._model} did not answer within {self._timeout_s:g} s.")

    def _refusal(self, status: int, message: str, elapsed_s: float) -> ServingError:
        """Return the error for TorchServe's response, which reports a worker that was killed for a timeout as died."""
        if message != _WORKER_DIED:
            return UpstreamError(COMPONENT, status, f"{COMPONENT}: {message}")
        hint = f"; if that was for memory, {MORE_MEMORY}" if status == _KILLED else ""
        return self._lost_worker(elapsed_s, hint)

    def _lost_worker(self, elapsed_s: float, hint: str = "") -> ServingError:
        if elapsed_s >= self._allowed_s:
            return WorkerTooSlow(
                f"Model {self._model} did not answer within {self._allowed_s:g} s (responseTimeout); "
                "TorchServe restarts its worker."
            )
        return WorkerBroken(f"The worker of model {self._model} died while it had the request{hint}.")


def _portions(batch: frames.HandlerBatch) -> Iterator[frames.HandlerBatch]:
    """Yield the batch, split into several if its bodies are large."""
    requests: list[frames.HandlerRequest] = []
    size = 0
    for request in batch.requests:
        bytes_of_request = sum(len(part.value) for part in request.parts)
        if requests and size + bytes_of_request > FRAME_BYTES:
            yield frames.HandlerBatch(batch.form, requests)
            requests, size = [], 0
        requests.append(request)
        size += bytes_of_request
    yield frames.HandlerBatch(batch.form, requests)
