"""Sends requests to a service by HTTP, like a user with curl."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from isvc.inference.protocol import InferenceProtocol, document_in, metadata_path, models_in
from isvc.inference.sample import sample_of, unknown_inputs
from isvc.inference.timing import HEADER, stages_of
from isvc.limits import ANSWER_BYTES, MODELS_LISTED
from isvc.predict.answer import Answer
from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.payload import PredictPayload
from isvc.predict.target import Target
from isvc.tls import trusting
from isvc_operator.responses import read_up_to
from isvc_operator.text import one_line

_OK: Final = 200
_NOT_FOUND: Final = 404
_FAILED: Final = 500
_OTHER_PORTS: Final = {80: 8080, 443: 8443}  # of an ingress that may not open those below 1024


@dataclass(frozen=True)
class Caller:
    """Sends requests to one target, each within ``seconds``."""

    session: aiohttp.ClientSession
    target: Target
    seconds: float

    async def model(self, service: str) -> str:
        """Return the model that the server has: that of the service's name, or else its only one.

        Raises PredictFailed for a server with several. One that lists none is asked for the service's name.
        """
        names = await self._names()
        if service in names or not names:
            return service
        if len(names) > 1:
            raise PredictFailed(f"{service} serves {one_line(', '.join(names))}; choose one with --model")
        return names[0]

    async def _names(self) -> list[str]:
        """Return the models that the server lists; none if it has no list of them."""
        async with self._exchange("GET", "/v1/models", None) as response:
            content = await _read(response)
            return (models_in(content) or [])[:MODELS_LISTED] if response.status == _OK else []

    async def sample(self, model: str) -> PredictPayload:
        """Return a request that fits the model, or is made from what it says of its inputs.

        Raises UnusableRequest without either, and PredictFailed for a model that is not served.
        """
        if known := self.target.samples.get(model):
            return known
        async with self._exchange("GET", metadata_path(model), None) as response:
            content = await _read(response)
            if response.status >= _FAILED:
                raise self._failed(f"{self.target.url} returned {response.status}")
            metadata = document_in(content) if response.status == _OK else None
        names = await self._names() if response.status == _NOT_FOUND else []
        if names and model not in names:
            raise PredictFailed(f"no model {model} is served; choose one with --model: {one_line(', '.join(names))}")
        if (found := sample_of(metadata)) is None:
            why = f"{model} {unknown_inputs(metadata)}"
            if self.target.trouble:  # such as a predictor that has failed behind a transformer that answers
                raise self._failed(why)
            raise UnusableRequest(f"{why}; give a request with --data @FILE")
        return PredictPayload(InferenceProtocol.V2, found)

    async def predict(self, model: str, payload: PredictPayload) -> Answer:
        """Send the payload and return the answer, whatever its status is; raises PredictFailed if there is none."""
        path, began = payload.protocol.path(model), time.perf_counter()
        async with self._exchange("POST", path, payload) as response:
            body = await _read(response)
            return Answer(
                url=f"{self.target.url}{path}",
                model=model,
                protocol=payload.protocol,
                status=response.status,
                content_type=response.content_type,
                body=body,
                milliseconds=(time.perf_counter() - began) * 1000,
                stages=stages_of(response.headers.get(HEADER, "")),
            )

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, payload: PredictPayload | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"X-Server-Timing": "1", **self.target.headers()}
        if payload and not payload.files:
            headers["Content-Type"] = payload.content_type
        with self._as_failure():
            async with self.session.request(
                method,
                f"{self.target.url}{path}",
                data=_content(payload) if payload else None,
                headers=headers,
                allow_redirects=False,
                server_hostname=urlsplit(f"//{self.target.host}").hostname if self.target.host else None,
                timeout=aiohttp.ClientTimeout(total=self.seconds),
            ) as response:
                yield response

    @contextmanager
    def _as_failure(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise self._failed(
                f"no answer from {self.target.url} within {self.seconds:g} s; look at the pods, or raise --timeout"
            ) from error
        except aiohttp.ClientConnectorCertificateError as error:
            why = one_line(str(error.certificate_error))
            raise PredictFailed(f"{self.target.url} is not trusted: {why}; name its authority with --cacert") from error
        except (aiohttp.ClientError, OSError) as error:
            reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            why = one_line(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__)
            raise self._failed(
                f"no answer from {self.target.url}: {why}; see that it runs there, or name another way to the service: "
                f"--url, --address {_other_address(self.target.url)} or --port-forward"
            ) from error

    def _failed(self, why: str) -> PredictFailed:
        return PredictFailed("; ".join(filter(None, (why, self.target.trouble))))


@asynccontextmanager
async def caller(target: Target, seconds: float, authority: str | None = None) -> AsyncIterator[Caller]:
    """Yield what sends requests to the target; ``authority``: a file with the certificates to trust."""
    tls = await asyncio.to_thread(tls_of, authority)
    connector: aiohttp.BaseConnector = (
        aiohttp.UnixConnector(str(target.socket)) if target.socket else aiohttp.TCPConnector(ssl=tls)
    )
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
    ) as session:
        yield Caller(session, target, seconds)


def _other_address(url: str) -> str:
    """Return an address to try: an ingress on this machine publishes no port, and seldom has that of its scheme."""
    parts = urlsplit(url)
    port = _OTHER_PORTS.get(parts.port or 0) if parts.hostname in ("127.0.0.1", "localhost") else None
    return f"{parts.hostname}:{port} (the port of make cluster-up)" if port else "HOST:PORT"


def _content(payload: PredictPayload) -> bytes | aiohttp.FormData:
    if not payload.files:
        return payload.body
    form = aiohttp.FormData(default_to_multipart=True)
    for file in payload.files:
        form.add_field(file.field, file.content, filename=file.filename, content_type=file.content_type)
    return form


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = await read_up_to(response, ANSWER_BYTES)
    if len(content) > ANSWER_BYTES:
        raise PredictFailed(f"the answer has more than {ANSWER_BYTES} bytes; use curl for it")
    return content


def tls_of(authority: str | None) -> ssl.SSLContext:
    """Return settings that trust the certificates in the file of ``--cacert``; raises UnusableRequest."""
    try:
        return trusting(authority)
    except OSError as error:
        raise UnusableRequest(f"--cacert {authority}: {error}; give a file with PEM certificates") from error
