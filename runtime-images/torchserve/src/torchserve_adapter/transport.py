"""The way of a batch to the workers of one version, and what becomes of it there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import msgspec

from torchserve_adapter.batching import FRAME_BYTES
from torchserve_adapter.errors import (
    COMPONENT,
    ConnectionBroken,
    WorkerBroken,
    WorkerTooSlow,
    broken_connections,
    message_of,
)
from transformer_sdk.client.errors import PredictorTimeout
from transformer_sdk.client.pool import Pool
from transformer_sdk.errors import NotReady, ServingError, UpstreamError
from transformer_sdk.handler import frames

_WORKER_DIED = "Worker died."
_KILLED = 507  # by SIGKILL, which TorchServe takes for a lack of memory
# With useJobTicket TorchServe refuses what it has no idle worker for; one that has just answered is not idle yet.
_NO_IDLE_WORKER = "has no worker to serve inference request"
_ASK_AGAIN_S = (0.002, 0.25)  # at first, and at most
_FRAME_HEADERS = ((b"content-type", frames.CONTENT_TYPE.encode()),)


class VersionTransport:
    """Sends frames to one version of a model."""

    def __init__(
        self,
        pool: Pool,
        path: str,
        model: str,
        response_timeout_s: float,
        startup_timeout_s: float,
        on_answer: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._path = path
        self._model = model
        self._on_answer = on_answer
        self._given_up = False
        self._allowed_s = response_timeout_s
        # TorchServe ends a request that its worker does not answer; this is for a TorchServe that does not do that.
        self._timeout_s = startup_timeout_s + response_timeout_s + 30

    async def send(self, batch: frames.Batch, is_wanted: Callable[[], bool]) -> frames.Result:
        """The result of the batch; raises the ServingError for what went wrong.

        Nothing that runs is ended: the worker is busy until it is finished, whether anybody waits for it or not.
        """
        if self._given_up:
            raise NotReady(f"Model {self._model} has no worker any more.")
        answers: list[frames.Answer] = []
        seconds = 0.0
        for portion in _portions(batch):
            result = await self._send(portion, is_wanted)
            if result.failure:
                return result
            answers += result.answers
            seconds += result.seconds
        return frames.Result(answers, seconds)

    def give_up(self) -> None:
        """There will be no worker any more: whatever is sent is refused."""
        self._given_up = True

    async def _send(self, batch: frames.Batch, is_wanted: Callable[[], bool]) -> frames.Result:
        content = await self._ask(frames.encode(batch), is_wanted)
        try:
            result = frames.decode_result(content)
        except msgspec.DecodeError as error:
            raise ConnectionBroken(f"{COMPONENT}: the answer cannot be read ({error}).") from error
        self._on_answer()
        return result

    async def _ask(self, frame: bytes, is_wanted: Callable[[], bool]) -> bytes:
        pause, longest = _ASK_AGAIN_S
        while True:
            started = time.monotonic()
            status, content = await self._post(frame)
            if status == 200:
                return content
            message = message_of(content)
            if _NO_IDLE_WORKER not in message or self._given_up or not is_wanted():
                raise self._refusal(status, message, time.monotonic() - started)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _post(self, frame: bytes) -> tuple[int, bytes]:
        try:
            with broken_connections():
                answer = await self._pool.request("POST", self._path, _FRAME_HEADERS, frame, self._timeout_s)
        except PredictorTimeout as error:
            raise WorkerTooSlow(
                f"{COMPONENT}: model {self._model} did not answer within {self._timeout_s:g} s."
            ) from error
        return answer.status, answer.body

    def _refusal(self, status: int, message: str, elapsed_s: float) -> ServingError:
        """TorchServe kills a worker that takes too long, and says no more than that it died."""
        if message != _WORKER_DIED:
            return UpstreamError(COMPONENT, status, f"{COMPONENT}: {message}")
        if elapsed_s >= self._allowed_s:
            return WorkerTooSlow(
                f"Model {self._model} did not answer within {self._allowed_s:g} s (responseTimeout); "
                "TorchServe restarts its worker."
            )
        hint = "; if that was for memory, raise the container's memory limit" if status == _KILLED else ""
        return WorkerBroken(f"The worker of model {self._model} died while it had the request{hint}.")


def _portions(batch: frames.Batch) -> Iterator[frames.Batch]:
    """The batch, in several where its bodies are large."""
    requests: list[frames.Request] = []
    size = 0
    for request in batch.requests:
        bytes_of_request = sum(len(part.value) for part in request.parts)
        if requests and size + bytes_of_request > FRAME_BYTES:
            yield frames.Batch(batch.form, requests)
            requests, size = [], 0
        requests.append(request)
        size += bytes_of_request
    yield frames.Batch(batch.form, requests)
