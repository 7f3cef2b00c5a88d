"""The only socket to TorchServe. What it answers comes back as bytes, what goes wrong as one of our errors."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict

from transformer_sdk.errors import NotReady, ServingError, UpstreamBroken, UpstreamError, UpstreamTimeout
from transformer_sdk.messages import Headers, Response

COMPONENT = "torchserve"
_WORKER_DIED = "Worker died."

# Of one connection only, or written anew by the client library.
_NOT_FORWARDED = frozenset(
    (b"host", b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect",
     b"content-length", b"content-type", b"accept-encoding")
)  # fmt: skip
# TorchServe's own; the adapter writes its own.
_NOT_RETURNED = frozenset(
    (b"connection", b"keep-alive", b"content-length", b"content-type", b"transfer-encoding", b"x-request-id",
     b"pragma", b"cache-control", b"expires")
)  # fmt: skip


class TorchServeClient:
    """TorchServe's three listeners, found by the addresses in its effective configuration."""

    def __init__(self, properties: Mapping[str, str], request_timeout_s: float) -> None:
        self._inference = properties["inference_address"]
        self._management = properties["management_address"]
        self._metrics = properties["metrics_address"]
        self._request_timeout = aiohttp.ClientTimeout(total=request_timeout_s)
        self._management_timeout = aiohttp.ClientTimeout(total=5)
        self._response_timeouts: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=600, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def predict(self, model: str, body: bytes, headers: Headers) -> Response:
        """TorchServe's answer; raises the ServingError for what went wrong."""
        url = f"{self._inference}/predictions/{model}"
        started = time.monotonic()
        try:
            async with self._session.post(
                url, data=body, headers=_forwarded(headers), timeout=self._request_timeout
            ) as answer:
                content = await answer.read()
        except TimeoutError as error:
            raise UpstreamTimeout(
                f"Model {model} did not answer within {self._request_timeout.total:g} s (--request-timeout)."
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise NotReady(f"{COMPONENT}: no connection to TorchServe ({error.strerror}).") from error
        except aiohttp.ClientError as error:
            raise UpstreamBroken(f"{COMPONENT}: the connection broke ({error or type(error).__name__}).") from error
        if answer.status >= 400:
            raise self._refusal(model, answer.status, _message_of(content), time.monotonic() - started)
        return Response(content, answer.status, headers=_returned(answer.raw_headers))

    def _refusal(self, model: str, status: int, message: str, elapsed_s: float) -> ServingError:
        """TorchServe kills a worker that takes too long, and says no more than that it died."""
        allowed_s = self._response_timeouts.get(model, math.inf)
        if message == _WORKER_DIED and elapsed_s >= allowed_s:
            return UpstreamTimeout(
                f"Model {model} did not answer within {allowed_s:g} s (responseTimeout); "
                "TorchServe restarts its worker."
            )
        return UpstreamError(COMPONENT, status, message)

    async def describe(self, model: str) -> list[dict[str, Any]] | None:
        """Every version of a model, none if TorchServe does not know it; None while TorchServe does not answer."""
        try:
            async with self._session.get(
                f"{self._management}/models/{model}/all", timeout=self._management_timeout
            ) as answer:
                versions: list[dict[str, Any]] = await answer.json() if answer.status == 200 else []
        except (TimeoutError, aiohttp.ClientError):
            return None
        self._response_timeouts[model] = max((version["responseTimeout"] for version in versions), default=0.0)
        return versions

    async def metrics(self) -> bytes:
        """TorchServe's metrics; nothing while it does not answer."""
        try:
            async with self._session.get(f"{self._metrics}/metrics", timeout=self._management_timeout) as answer:
                return await answer.read() if answer.status == 200 else b""
        except (TimeoutError, aiohttp.ClientError):
            return b""


def _forwarded(headers: Headers) -> CIMultiDict[str]:
    forwarded = CIMultiDict(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name not in _NOT_FORWARDED
    )
    forwarded["Content-Type"] = "application/json"
    return forwarded


def _returned(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in _NOT_RETURNED)


def _message_of(content: bytes) -> str:
    """TorchServe's errors are {"code", "type", "message"}."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip() or "an error without a message"
