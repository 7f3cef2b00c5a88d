"""A client of the v2 protocol over gRPC. Needs the extra `grpc`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from data_plane import limits
from data_plane.client.errors import PredictorBroken, PredictorError, PredictorTimeout, PredictorUnreachable
from data_plane.errors import ServingError, UpstreamBroken
from data_plane.off_loop import off_loop
from data_plane.protocol.v2 import open_inference_pb2 as pb
from transformer_sdk.kserve.client_default import USE_CLIENT_DEFAULT
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse
from transformer_sdk.kserve.protocol.weight import weight

_SERVICE = "/inference.GRPCInferenceService/"
_PORT, _TLS_PORT = 80, 443
_FIRST_RETRY_S, _DOUBLINGS = 0.1, 10
_TOO_LARGE = "CLIENT: Received message larger than max"  # gRPC has no other sign of it
_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
}

# A gRPC server that ends cancels calls that arrive before its clients know, and has not read them. A call that it is
# working on is cancelled only when its grace period is over.
_CROSSING_S = 1.0
_UNREAD_ATTEMPTS = 5

Metadata = Sequence[tuple[str, str]]
_M = TypeVar("_M", bound=Message)


class InferenceGRPCClient:
    """A client over gRPC. It keeps its channel open. `retries` are attempts to connect, before anything is sent."""

    def __init__(
        self,
        url: str,
        verbose: bool = False,
        use_ssl: bool = False,
        root_certificates: str | None = None,
        private_key: str | None = None,
        certificate_chain: str | None = None,
        creds: grpc.ChannelCredentials | None = None,
        channel_args: Sequence[tuple[str, Any]] | None = None,
        timeout: float | None = 60,
        retries: int | None = 3,
    ) -> None:
        self.verbose = verbose
        self._url = url if ":" in url else f"{url}:{_TLS_PORT if use_ssl or creds else _PORT}"
        self._timeout = timeout
        self._retries = retries or 0
        if use_ssl and creds is None:
            files = (root_certificates, private_key, certificate_chain)
            creds = grpc.ssl_channel_credentials(*(Path(file).read_bytes() if file else None for file in files))
        bounds = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", limits.MAX_RESPONSE)]
        options = [*bounds, *(channel_args or ())]
        self._channel = (
            grpc.aio.secure_channel(self._url, creds, options)
            if creds
            else grpc.aio.insecure_channel(self._url, options)
        )

    async def infer(
        self, infer_request: InferRequest, timeout: Any = USE_CLIENT_DEFAULT, headers: Metadata | None = None
    ) -> InferResponse:
        """Return the outputs; raises the errors of `client.errors`."""
        if not isinstance(infer_request, InferRequest):
            raise InvalidInput("Invalid input format")
        message = await off_loop(weight(infer_request), lambda: infer_request.to_grpc().SerializeToString())
        said = await self._send("ModelInfer", message, timeout, headers)
        return await off_loop(len(said), self._infer_response, said)

    async def forward(
        self, message: bytes, timeout: Any = USE_CLIENT_DEFAULT, headers: Metadata | None = None
    ) -> bytes:
        """Send a serialized ModelInferRequest, return the serialized response; raises the errors of `client.errors`."""
        return await self._send("ModelInfer", message, timeout, headers)

    async def is_server_ready(self, timeout: Any = USE_CLIENT_DEFAULT, headers: Metadata | None = None) -> bool:
        """Return whether all models are ready."""
        response = await self._call("ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse, timeout, headers)
        return response.ready

    async def is_server_live(self, timeout: Any = USE_CLIENT_DEFAULT, headers: Metadata | None = None) -> bool:
        """Return whether the server responds."""
        response = await self._call("ServerLive", pb.ServerLiveRequest(), pb.ServerLiveResponse, timeout, headers)
        return response.live

    async def is_model_ready(
        self, model_name: str, timeout: Any = USE_CLIENT_DEFAULT, headers: Metadata | None = None
    ) -> bool:
        """Return whether the model can serve requests."""
        request = pb.ModelReadyRequest(name=model_name)
        return (await self._call("ModelReady", request, pb.ModelReadyResponse, timeout, headers)).ready

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> InferenceGRPCClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, method: str, message: Message, kind: type[_M], timeout: Any, headers: Metadata | None) -> _M:
        return self._parsed(kind, await self._send(method, message.SerializeToString(), timeout, headers))

    def _infer_response(self, serialized: bytes) -> InferResponse:
        message = self._parsed(pb.ModelInferResponse, serialized)
        try:
            return InferResponse.from_grpc(message)
        except UpstreamBroken as error:
            raise PredictorBroken(f"The predictor at {self._url} sent an invalid response: {error}") from error

    def _parsed(self, kind: type[_M], serialized: bytes) -> _M:
        try:
            return kind.FromString(serialized)
        except DecodeError as error:
            name = kind.DESCRIPTOR.full_name
            raise PredictorBroken(
                f"The predictor at {self._url} sent a response that is not a valid {name}: {error}."
            ) from error

    async def _send(self, method: str, message: bytes, timeout: Any, headers: Metadata | None) -> bytes:
        timeout_s = self._timeout if timeout is USE_CLIENT_DEFAULT else timeout
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        call: Callable[..., Awaitable[bytes]] = self._channel.unary_unary(_SERVICE + method)
        for attempts_left in range(_UNREAD_ATTEMPTS, 0, -1):
            await self._connect(deadline)
            sent = time.monotonic()
            left_s = None if timeout_s is None else max(deadline - sent, 0.0)
            try:
                return await call(message, timeout=left_s, metadata=tuple(headers or ()))
            except grpc.aio.AioRpcError as error:
                if attempts_left == 1 or not _crossed_the_end(error, time.monotonic() - sent):
                    raise self._error(error, timeout_s) from error
        raise AssertionError

    async def _connect(self, deadline: float) -> None:
        """Wait for a connection, once for each retry, until the deadline."""
        for attempt in range(self._retries):
            left_s = deadline - time.monotonic()
            if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY or left_s <= 0:
                return
            wait_s = min(_FIRST_RETRY_S * 2 ** min(attempt, _DOUBLINGS), limits.MAX_RETRY_PAUSE)
            try:
                await asyncio.wait_for(self._channel.channel_ready(), min(wait_s, left_s))
            except asyncio.TimeoutError:
                continue

    def _error(self, error: grpc.aio.AioRpcError, timeout_s: float | None) -> ServingError:
        details, code = error.details() or "", error.code()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            limit = "its own time limit" if timeout_s is None else f"{timeout_s:g} s"
            return PredictorTimeout(f"The predictor at {self._url} did not answer within {limit}.")
        if _TOO_LARGE in details:
            return PredictorBroken(f"The predictor at {self._url} sent a response that is too large: {details}.")
        component = next((value for name, value in error.trailing_metadata() or () if name == "x-component"), None)
        if code is grpc.StatusCode.UNAVAILABLE and component is None:
            return PredictorUnreachable(
                f"The predictor at {self._url} cannot be reached: {details}; see whether --predictor_host is right."
            )
        body = details.encode()
        return PredictorError(_STATUS.get(code, 500), body)


def _crossed_the_end(error: grpc.aio.AioRpcError, seconds: float) -> bool:
    """Whether a call that was over after ``seconds`` met a server that ends, which has not read it."""
    return error.code() is grpc.StatusCode.CANCELLED and not error.trailing_metadata() and seconds < _CROSSING_S
