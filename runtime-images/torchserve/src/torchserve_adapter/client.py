"""The only sockets to TorchServe: what goes wrong with them comes back as one of our errors."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from torchserve_adapter.batching import FRAME_BYTES
from torchserve_adapter.errors import COMPONENT, ConnectionBroken, TorchServeAbsent, WorkerTooSlow
from transformer_sdk.errors import ServingError, UpstreamError
from transformer_sdk.handler import frames
from transformer_sdk.messages import Response

_WORKER_DIED = "Worker died."
_PAGE = 100  # the most models that TorchServe lists at once
_LARGE = 2**20  # bytes
_FRAME_HEADERS = {"Content-Type": frames.CONTENT_TYPE}


@dataclass(frozen=True)
class Version:
    """One version of a model, as TorchServe describes it."""

    version: str
    archive: str
    workers: int  # those that are ready
    max_workers: int
    batch_size: int
    response_timeout_s: int
    startup_timeout_s: int


class TorchServeClient:
    """TorchServe's three listeners, found by the addresses in its effective configuration."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._inference = properties["inference_address"]
        self._management = properties["management_address"]
        self._metrics = properties["metrics_address"]
        self._short = aiohttp.ClientTimeout(total=5)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=600, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def transport(self, model: str, version: Version) -> VersionTransport:
        """The way to this version's workers."""
        path = f"/predictions/{quote(model, safe='')}/{quote(version.version, safe='')}"
        return VersionTransport(self._session, URL(self._inference + path, encoded=True), model, version)

    async def describe(self, model: str) -> tuple[Version, ...] | None:
        """Every version of a model, the default one first; none if TorchServe does not know it, None while it does not
        answer."""
        described = await self._get(f"/models/{quote(model, safe='')}/all")
        if described is None:
            return None
        versions = [_version(one) for one in described] if isinstance(described, list) else []
        if len(versions) > 1 and (default := await self._get(f"/models/{quote(model, safe='')}")):
            versions.sort(key=lambda one: one.version != default[0]["modelVersion"])
        return tuple(versions)

    async def names(self) -> tuple[str, ...] | None:
        """Every model that TorchServe knows; None while it does not answer."""
        names: list[str] = []
        while True:
            page = await self._get(f"/models?limit={_PAGE}&next_page_token={len(names)}")
            if page is None:
                return None
            names += [one["modelName"] for one in page["models"]]
            if "nextPageToken" not in page:
                return tuple(names)

    async def metrics(self) -> bytes:
        """TorchServe's metrics; nothing while it does not answer."""
        try:
            async with self._session.get(f"{self._metrics}/metrics", timeout=self._short) as answer:
                return await answer.read() if answer.status == 200 else b""
        except (TimeoutError, aiohttp.ClientError):
            return b""

    async def manage(self, method: str, path_and_query: str) -> Response:
        """TorchServe's answer to a request of its management API, whatever it is."""
        url = URL(self._management + path_and_query, encoded=True)
        with _broken_connections():
            async with self._session.request(method, url) as answer:
                return Response(await answer.read(), answer.status, answer.content_type.encode())

    async def _get(self, path: str) -> Any:
        """JSON of the management API; an object for what TorchServe refuses, None while it does not answer."""
        try:
            async with self._session.get(URL(self._management + path, encoded=True), timeout=self._short) as answer:
                return await answer.json()
        except (TimeoutError, aiohttp.ClientError):
            return None


class VersionTransport:
    """Sends frames to one version of a model."""

    def __init__(self, session: aiohttp.ClientSession, url: URL, model: str, version: Version) -> None:
        self._session = session
        self._url = url
        self._model = model
        self._allowed_s = version.response_timeout_s
        # TorchServe ends a request that its worker does not answer; this is for a TorchServe that does not do that.
        self._timeout = aiohttp.ClientTimeout(total=version.startup_timeout_s + version.response_timeout_s + 30)

    async def send(self, batch: frames.Batch, deadline: float) -> frames.Result:  # noqa: ARG002
        """The result of the batch; raises the ServingError for what went wrong.

        A deadline changes nothing: the worker is busy until it is finished, whether anybody waits for it or not.
        """
        answers: list[frames.Answer] = []
        seconds = 0.0
        for portion in _portions(batch):
            result = await self._send(portion)
            if result.failure:
                return result
            answers += result.answers
            seconds += result.seconds
        return frames.Result(answers, seconds)

    async def _send(self, batch: frames.Batch) -> frames.Result:
        started = time.monotonic()
        status, content = await self._post(frames.encode(batch))
        if status != 200:
            raise self._refusal(status, message_of(content), time.monotonic() - started)
        try:
            return frames.decode_result(content)
        except msgspec.DecodeError as error:
            raise ConnectionBroken(f"{COMPONENT}: the answer cannot be read ({error}).") from error

    async def _post(self, frame: bytes) -> tuple[int, bytes]:
        # A large one goes piece by piece, or nothing else would run meanwhile.
        body = io.BytesIO(frame) if len(frame) > _LARGE else frame
        try:
            with _broken_connections():
                async with self._session.post(
                    self._url, data=body, headers=_FRAME_HEADERS, timeout=self._timeout
                ) as answer:
                    return answer.status, await answer.read()
        except TimeoutError as error:
            raise WorkerTooSlow(
                f"{COMPONENT}: model {self._model} did not answer within {self._timeout.total:g} s."
            ) from error

    def _refusal(self, status: int, message: str, elapsed_s: float) -> ServingError:
        """TorchServe kills a worker that takes too long, and says no more than that it died."""
        if message == _WORKER_DIED and elapsed_s >= self._allowed_s:
            return WorkerTooSlow(
                f"Model {self._model} did not answer within {self._allowed_s:g} s (responseTimeout); "
                "TorchServe restarts its worker."
            )
        return UpstreamError(COMPONENT, status, f"{COMPONENT}: {message}")


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


@contextlib.contextmanager
def _broken_connections() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise TorchServeAbsent(f"{COMPONENT}: no connection to TorchServe ({error.strerror}).") from error
    except aiohttp.ClientError as error:
        raise ConnectionBroken(f"{COMPONENT}: the connection broke ({error or type(error).__name__}).") from error


def _version(described: Mapping[str, Any]) -> Version:
    return Version(
        version=described["modelVersion"],
        archive=described["modelUrl"],
        workers=sum(worker["status"] == "READY" for worker in described["workers"]),
        max_workers=described["maxWorkers"],
        batch_size=described["batchSize"],
        response_timeout_s=described["responseTimeout"],
        startup_timeout_s=described["startupTimeout"],
    )


def message_of(content: bytes) -> str:
    """TorchServe's errors are {"code", "type", "message"}."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip() or "an error without a message"
