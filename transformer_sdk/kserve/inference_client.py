"""Clients of model servers, as in KServe: over HTTP with the v1 or v2 protocol, and over gRPC.

A response that is an error raises `client.errors.PredictorError`, which has the server's status and message.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from data_plane.client import forwarding
from data_plane.client.address import split
from data_plane.client.errors import PredictorBroken, PredictorError
from data_plane.client.responses import UpstreamResponse, successful
from data_plane.errors import InvalidRequest as BadDocument
from data_plane.file_state import file_state
from data_plane.protocol import json_text
from data_plane.tls import trusting
from transformer_sdk.kserve.client_default import USE_CLIENT_DEFAULT
from transformer_sdk.kserve.constants.constants import INFERENCE_CONTENT_LENGTH_HEADER, PredictorProtocol
from transformer_sdk.kserve.errors import InvalidInput, UnsupportedProtocol
from transformer_sdk.kserve.protocol.documents import dump
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse

if TYPE_CHECKING:
    from data_plane.client.http import HttpClient
    from transformer_sdk.kserve.grpc_client import InferenceGRPCClient

__all__ = ["USE_CLIENT_DEFAULT", "InferenceGRPCClient", "InferenceRESTClient", "RESTConfig"]

_V1, _V2 = PredictorProtocol.REST_V1.value, PredictorProtocol.REST_V2.value
_LENGTH = INFERENCE_CONTENT_LENGTH_HEADER
_UNAVAILABLE = 503


def __getattr__(name: str) -> Any:
    if name == "InferenceGRPCClient":
        from transformer_sdk.kserve.grpc_client import InferenceGRPCClient  # gRPC takes a while to import

        return InferenceGRPCClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class RESTConfig:
    """The settings of a client. `retries` are attempts to connect; `auth` is a user name and a password."""

    def __init__(
        self,
        transport: None = None,
        protocol: str | PredictorProtocol = _V1,
        retries: int = 3,
        http2: bool = False,
        timeout: float | tuple[float, ...] | None = 60,
        cert: str | tuple[str, ...] | None = None,
        verify: str | bool | ssl.SSLContext = True,
        auth: tuple[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        if transport is not None or http2:
            raise ValueError("transport and http2 are of httpx; this client is aiohttp's, of HTTP/1.1.")
        self.transport, self.http2 = transport, http2
        self.protocol = protocol.value if isinstance(protocol, PredictorProtocol) else protocol.lower()
        self.retries = retries
        self.timeout = max(timeout) if isinstance(timeout, tuple) else timeout
        self.cert = cert
        self.verify = verify
        self.auth = auth
        self.verbose = verbose
        self._context: ssl.SSLContext | None = None
        self._state: object = None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS settings; those of a file of certificates are made again when it changes."""
        if isinstance(self.verify, ssl.SSLContext):
            return self.verify
        state = file_state(self.verify) if isinstance(self.verify, str) else None
        if self._context is None or state != self._state:
            self._context, self._state = self._made(), state
        return self._context

    def _made(self) -> ssl.SSLContext:
        context = trusting(self.verify if isinstance(self.verify, str) else None, verify=self.verify is not False)
        if self.cert:
            context.load_cert_chain(*([self.cert] if isinstance(self.cert, str) else self.cert))
        return context


class InferenceRESTClient:
    """A client over HTTP. It keeps connections open; close it in the event loop that used it."""

    def __init__(self, config: RESTConfig | None = None) -> None:
        self._config = config or RESTConfig()
        self._http: HttpClient | None = None

    async def infer(
        self,
        base_url: str,
        data: InferRequest | Mapping[str, Any] | bytes,
        model_name: str | None = None,
        headers: Mapping[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
        is_graph_endpoint: bool = False,
        timeout: Any = USE_CLIENT_DEFAULT,
    ) -> InferResponse | Any:
        """Return the predictions, or an InferResponse over v2; raises ValueError without a model's name."""
        if is_graph_endpoint:
            base_url, path = split(base_url)
        elif model_name is None:
            raise ValueError("model_name should not be 'None'")
        else:
            path = self._path(model_name, {_V1: ":predict", _V2: "/infer"})
        body, length = encode(data)
        response = await self.post(base_url, path, body, forwarding.sent((headers or {}).items()), length, timeout)
        if response_headers is not None:
            response_headers.update(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers
            )
        if is_graph_endpoint or self._config.protocol == _V1:
            return decode_json(response, base_url)
        return decode_infer(response, base_url)

    async def explain(
        self,
        base_url: str,
        model_name: str,
        data: Mapping[str, Any] | bytes,
        headers: Mapping[str, str] | None = None,
        timeout: Any = USE_CLIENT_DEFAULT,
    ) -> Any:
        """Return the explanations; raises UnsupportedProtocol unless the protocol is v1."""
        sent = forwarding.sent((headers or {}).items())
        path = self._path(model_name, {_V1: ":explain"})
        return decode_json(await self.post(base_url, path, encode(data)[0], sent, None, timeout), base_url)

    async def is_server_ready(
        self, base_url: str, headers: Mapping[str, str] | None = None, timeout: Any = USE_CLIENT_DEFAULT
    ) -> bool:
        """Return whether all models are ready; v2 only."""
        document = await self._get(base_url, self._path(None, {_V2: "/health/ready"}), headers, timeout)
        return bool(document.get("ready"))

    async def is_server_live(
        self, base_url: str, headers: Mapping[str, str] | None = None, timeout: Any = USE_CLIENT_DEFAULT
    ) -> bool:
        """Return whether the server responds."""
        path = "/" if self._config.protocol == _V1 else self._path(None, {_V2: "/health/live"})
        document = await self._get(base_url, path, headers, timeout)
        return bool(document.get("live")) or str(document.get("status")).lower() == "alive"

    async def is_model_ready(
        self,
        base_url: str,
        model_name: str,
        headers: Mapping[str, str] | None = None,
        timeout: Any = USE_CLIENT_DEFAULT,
    ) -> bool:
        """Return whether the model can serve requests."""
        try:
            document = await self._get(base_url, self._path(model_name, {_V1: "", _V2: "/ready"}), headers, timeout)
        except PredictorError as error:
            if error.status == _UNAVAILABLE or self._config.protocol == _V2:
                return False
            raise
        return bool(document.get("ready", True))

    async def post(
        self,
        base_url: str,
        path: str,
        body: bytes,
        headers: list[tuple[str, str]],
        json_length: int | None = None,
        timeout: Any = USE_CLIENT_DEFAULT,
        *,
        stream: bool = False,
    ) -> UpstreamResponse:
        """Send a body as it is; `json_length` is that of one with raw tensors. With `stream`, stream the response."""
        sent = self._with_auth(headers)
        if json_length is not None:
            sent = [pair for pair in sent if pair[0] != "content-type"]
            sent += [("content-type", "application/octet-stream"), (_LENGTH, str(json_length))]
        elif all(name != "content-type" for name, _ in sent):
            sent.append(("content-type", "application/json"))
        seconds = self._seconds(timeout)
        return successful(await self._client.send("POST", base_url, path, sent, body, seconds, stream=stream), base_url)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def __aenter__(self) -> InferenceRESTClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _client(self) -> HttpClient:
        if self._http is None:
            from data_plane.client.http import HttpClient  # aiohttp takes a while to import

            self._http = HttpClient(retries=self._config.retries, tls=self._config.tls)
        return self._http

    async def _get(self, base_url: str, path: str, headers: Mapping[str, str] | None, timeout: Any) -> dict[str, Any]:
        sent = self._with_auth(forwarding.sent((headers or {}).items()))
        response = await self._client.send("GET", base_url, path, sent, timeout_s=self._seconds(timeout))
        successful(response, base_url)
        document = decode_json(response, base_url) if response.body else {}
        return document if isinstance(document, dict) else {}

    def _path(self, model: str | None, by_protocol: Mapping[str, str]) -> str:
        protocol = self._config.protocol
        if protocol not in by_protocol:
            raise UnsupportedProtocol(protocol)
        return f"/{protocol}" + (f"/models/{model}" if model else "") + by_protocol[protocol]

    def _with_auth(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the headers with basic authentication, if configured, in place of any other `authorization`."""
        if not self._config.auth:
            return list(headers)
        secret = base64.b64encode(":".join(self._config.auth).encode()).decode()
        others = (pair for pair in headers if pair[0] != "authorization")
        return [*others, ("authorization", f"Basic {secret}")]

    def _seconds(self, timeout: Any) -> float | None:
        """Return the timeout in seconds; None for no limit."""
        chosen = self._config.timeout if timeout is USE_CLIENT_DEFAULT else timeout
        return max(chosen) if isinstance(chosen, tuple) else chosen


def decode_json(response: UpstreamResponse, base_url: str) -> Any:
    """Decode a JSON response; raises PredictorBroken."""
    try:
        return json_text.loads(response.body)
    except (orjson.JSONDecodeError, BadDocument) as error:
        raise PredictorBroken(f"The predictor at {base_url} sent a response that is not JSON: {error}.") from error


def decode_infer(response: UpstreamResponse, base_url: str) -> InferResponse:
    """Decode a v2 response; raises PredictorBroken."""
    length = response.header(_LENGTH.encode())
    try:
        return InferResponse.from_bytes(response.body, int(length) if length else None)
    except (InvalidInput, ValueError) as error:
        raise PredictorBroken(f"The predictor at {base_url} sent a response that is not v2: {error}") from error


def encode(data: InferRequest | Mapping[str, Any] | bytes) -> tuple[bytes, int | None]:
    """Return the body and, with raw tensors, the length of its JSON; raises InvalidInput and TypeError."""
    if isinstance(data, bytes):
        return data, None
    if not isinstance(data, InferRequest):
        return dump(data), None
    document, length = data.to_rest()
    return (document, length) if isinstance(document, bytes) else (dump(document), None)
