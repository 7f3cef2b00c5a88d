"""The base class of users' models: hooks around a request to a predictor, or a predictor of their own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_plane.client import forwarding
from data_plane.file_state import file_state
from transformer_sdk.kserve import context
from transformer_sdk.kserve.constants.constants import EXPLAINER_BASE_URL_FORMAT, PredictorProtocol
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.hooks import done
from transformer_sdk.kserve.inference_client import InferenceRESTClient, RESTConfig
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse

if TYPE_CHECKING:
    from transformer_sdk.kserve.grpc_client import InferenceGRPCClient

__all__ = [
    "BaseKServeModel",
    "InferenceModel",
    "InferenceVerb",
    "Model",
    "PredictorConfig",
    "PredictorProtocol",
    "is_v2",
]

# The member of a document that must be a list, by protocol.
_LISTS = {PredictorProtocol.REST_V1.value: "instances", PredictorProtocol.REST_V2.value: "inputs"}
_NO_PREDICTOR = PredictorConfig("")
Payload = Any  # a JSON document, bytes of another content type, or an InferRequest
Result = Any  # a JSON document, an InferResponse, text, bytes, or an async iterator of pieces
InferReturnValueTypes = InferReturnType = Result  # KServe's names, for annotations
RequestHeaders = Mapping[str, str]


class InferenceVerb(Enum):
    EXPLAIN = 1
    PREDICT = 2


class BaseKServeModel(ABC):
    """The interface of a model to the server."""

    @abstractmethod
    def __init__(self, name: str) -> None:
        self.name = name
        self.ready = False
        self.engine = False

    async def healthy(self) -> bool:
        """Whether the model can serve requests now."""
        return self.ready

    def load(self) -> bool:
        """Load the model; returns whether it can serve requests."""
        self.ready = True
        return self.ready

    def start(self) -> Any:
        """Start the model, before the server accepts requests; may be async, as `load`, `stop` and `stop_engine`."""
        self.ready = True

    async def start_engine(self) -> None:
        """Start an engine beside the server; called if `engine` is true."""
        self.ready = True

    def stop(self) -> Any:
        """Stop the model; called after the last response of the server."""
        self.ready = False

    def stop_engine(self) -> Any:
        """Stop the engine that `start_engine` started."""
        self.ready = False


class InferenceModel(BaseKServeModel):
    """A model that is called with each request; `Model` implements this with hooks."""

    @abstractmethod
    def __call__(
        self,
        body: Payload,
        headers: dict[str, str] | None = None,
        verb: InferenceVerb = InferenceVerb.PREDICT,
    ) -> Awaitable[Any]: ...

    def get_input_types(self) -> list[dict[str, Any]]:
        """Return the inputs for the v2 metadata: `[{"name": …, "datatype": …, "shape": […]}]`."""
        return []

    def get_output_types(self) -> list[dict[str, Any]]:
        """Return the outputs, in the same form as the inputs."""
        return []


class _PredictorAttribute:
    """An attribute of the predictor's config that models for kserve 0.13 and before set on themselves."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name, self._set = name, f"_own_{name}"

    def __get__(self, model: Model | None, _: type) -> Any:
        if model is None:
            return self
        own = getattr(model, self._set, None)
        config = model._own_config or context.get_predictor_config() or _NO_PREDICTOR
        return getattr(config, self._name) if own is None else own

    def __set__(self, model: Model, value: Any) -> None:
        setattr(model, self._set, value)


class Model(InferenceModel):
    """A model with hooks; override `preprocess`, `predict`, `postprocess` and `explain`, each sync or async.

    A hook that is not overridden costs nothing: bodies are forwarded unchanged. The default `predict` calls the
    predictor. All public names are KServe's, as users may define any other name.
    """

    predictor_host = _PredictorAttribute()
    protocol = _PredictorAttribute()
    timeout = _PredictorAttribute()
    use_ssl = _PredictorAttribute()
    _own_predictor_host: str | None = None

    def __init__(
        self,
        name: str,
        *given: bool | PredictorConfig | None,
        return_response_headers: bool = False,
        predictor_config: PredictorConfig | None = None,
    ) -> None:
        """Accept `return_response_headers` after the name; or, as in kserve 0.13, the config before it."""
        super().__init__(name)
        for one in given:
            if isinstance(one, PredictorConfig):
                predictor_config = one
            elif one is not None:
                return_response_headers = one
        self.required_response_headers = return_response_headers
        self.enable_latency_logging = False
        self.explainer_host: str | None = None
        self._own_config = predictor_config
        self._predictor_clients: dict[tuple[Any, ...], Any] = {}

    @property
    def predictor_config(self) -> PredictorConfig | None:
        """The model's config, or the server's; a model that sets `predictor_host` overrides it by its attributes."""
        config = self._own_config or context.get_predictor_config()
        if self._own_predictor_host is None:  # the other attributes may have another meaning
            return config
        given = config or _NO_PREDICTOR
        return PredictorConfig(
            self.predictor_host, self.protocol, self.use_ssl, self.timeout,
            given.predictor_request_retries, given.predictor_health_check,
        )  # fmt: skip

    async def __call__(
        self,
        body: Payload,
        headers: dict[str, str] | None = None,
        verb: InferenceVerb = InferenceVerb.PREDICT,
    ) -> tuple[Result, dict[str, str]]:
        """Run all hooks in order; return the result and its headers.

        The server calls this only if it is overridden: it keeps bodies as bytes where possible, and runs sync hooks in
        threads.
        """
        response_headers: dict[str, str] = {}
        more = (response_headers,) if self.required_response_headers else ()
        payload = await done(self.validate(await done(self.preprocess(body, headers))))
        if verb is InferenceVerb.EXPLAIN:
            result = await done(self.explain(payload, headers))
        else:
            result = await done(self.predict(payload, headers, *more))
        return await done(self.postprocess(result, headers, *more)), response_headers

    def validate(self, payload: Payload) -> Payload:
        """Check the payload between `preprocess` and `predict`; raises InvalidInput."""
        if isinstance(payload, dict) and (config := self.predictor_config):
            key = _LISTS.get(config.predictor_protocol)
            if key in payload and not _is_list(payload[key]):
                raise InvalidInput(f'Expected "{key}" to be a list')
        return payload

    async def preprocess(self, payload: Payload, headers: dict[str, str] | None = None) -> Payload:  # noqa: ARG002
        """Convert the client's payload to the input of `predict`."""
        return payload

    async def predict(
        self,
        payload: Payload,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> Result:
        """Send the payload to the predictor; raises NotImplementedError without one, or errors of `client.errors`."""
        config = self._required_predictor()
        if config.predictor_protocol == PredictorProtocol.GRPC_V2.value:
            return await self._grpc_predict(payload, headers)
        return await self._http_predict(payload, headers, response_headers)

    async def postprocess(
        self,
        result: Result,
        headers: dict[str, str] | None = None,  # noqa: ARG002
        response_headers: dict[str, str] | None = None,  # noqa: ARG002
    ) -> Result:
        """Convert the result of `predict` to the client's response."""
        return result

    async def explain(self, payload: Payload, headers: dict[str, str] | None = None) -> Result:
        """Send the payload to the explainer, or to the predictor if `explainer_host` is not set."""
        forwarded = _forwarded(headers)
        client = self._rest_client(PredictorProtocol.REST_V1.value)  # the only protocol with explanations
        return await client.explain(self._explainer_url(), self.name, payload, forwarded)

    def _required_predictor(self) -> PredictorConfig:
        """Return the config of the predictor; raises NotImplementedError without one."""
        config = self.predictor_config
        if config is None or not config.predictor_host:
            raise NotImplementedError(
                f"Model {self.name} has no predictor to ask: give --predictor_host, or override predict."
            )
        return config

    def _explainer_url(self) -> str:
        """Return the URL for explanations; raises NotImplementedError without explainer and predictor."""
        config = self.predictor_config
        if self.explainer_host:
            scheme = "https" if config and config.predictor_use_ssl else "http"
            return EXPLAINER_BASE_URL_FORMAT.format(scheme, self.explainer_host)
        return self._required_predictor().predictor_base_url

    @property
    def _http_client(self) -> InferenceRESTClient:
        """The HTTP client for the current config of the predictor; its connections are kept."""
        return self._rest_client((self.predictor_config or _NO_PREDICTOR).predictor_protocol)

    def _rest_client(self, protocol: str) -> InferenceRESTClient:
        config = self.predictor_config or _NO_PREDICTOR
        key = (protocol, config.predictor_request_timeout_seconds, config.predictor_request_retries)
        if key not in self._predictor_clients:
            rest = RESTConfig(
                protocol=protocol,
                timeout=config.predictor_request_timeout_seconds,
                retries=config.predictor_request_retries,
                verify=ca_bundle(os.environ) or True,
            )
            self._predictor_clients[key] = InferenceRESTClient(rest)
        client: InferenceRESTClient = self._predictor_clients[key]
        return client

    @property
    def _grpc_client(self) -> InferenceGRPCClient:
        """The gRPC client for the current config of the predictor; its channel is kept."""
        from transformer_sdk.kserve.grpc_client import InferenceGRPCClient

        config = self._required_predictor()
        authorities = ca_bundle(os.environ)
        state = file_state(authorities) if authorities and config.predictor_use_ssl else None  # else they are not read
        key = (config.predictor_host, config.predictor_use_ssl, state)
        if key not in self._predictor_clients:
            self._predictor_clients[key] = InferenceGRPCClient(
                config.predictor_host,
                use_ssl=config.predictor_use_ssl,
                root_certificates=authorities,
                timeout=config.predictor_request_timeout_seconds,
                retries=config.predictor_request_retries,
            )
        client: InferenceGRPCClient = self._predictor_clients[key]
        return client

    async def _close_clients(self) -> None:
        """Close the connections of the running event loop."""
        for client in self._predictor_clients.values():
            await client.close()
        self._predictor_clients.clear()

    async def _http_predict(
        self,
        payload: Payload,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> Result:
        return await self._http_client.infer(
            self._required_predictor().predictor_base_url,
            data=payload,
            model_name=self.name,
            headers=_forwarded(headers),
            response_headers=response_headers,
        )

    async def _grpc_predict(self, payload: Payload, headers: dict[str, str] | None = None) -> InferResponse:
        request = payload if isinstance(payload, InferRequest) else InferRequest.from_grpc(payload)
        return await self._grpc_client.infer(request, headers=tuple(_forwarded(headers).items()))


def _is_list(value: Any) -> bool:
    """Whether the value is a list in JSON: arrays of numpy and torch are sent as lists."""
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0


def is_v2(protocol: PredictorProtocol) -> bool:
    """Whether the protocol is v2, over HTTP or gRPC."""
    return protocol != PredictorProtocol.REST_V1


def tls_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the Secret by which the operator has asked for TLS between the servers, or None."""
    folder = environment.get("TLS_DIR")
    return Path(folder) if folder else None


def ca_bundle(environment: Mapping[str, str]) -> str | None:
    """Return the file of private CA certificates that the operator, or KServe's controller, configures, or None."""
    if (folder := tls_folder(environment)) and (folder / "ca.crt").exists():
        return str(folder / "ca.crt")
    return environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or None


def _forwarded(headers: RequestHeaders | None) -> dict[str, str]:
    return {name: value for name, value in (headers or {}).items() if name.lower() in forwarding.FORWARDED}
