"""The class that users write: hooks around a call to a predictor, or a predictor of their own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from data_plane.client import forwarding
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

# What a document of each protocol has as a list.
_LISTS = {PredictorProtocol.REST_V1.value: "instances", PredictorProtocol.REST_V2.value: "inputs"}
_NOBODY = PredictorConfig("")
Payload = Any  # a JSON document, bytes of another content type, or an InferRequest
Result = Any  # a JSON document, an InferResponse, text, bytes, or an async iterator of pieces
InferReturnValueTypes = InferReturnType = Result  # KServe's names, for annotations
RequestHeaders = Mapping[str, str]


class InferenceVerb(Enum):
    """What is asked of a model."""

    EXPLAIN = 1
    PREDICT = 2


class BaseKServeModel(ABC):
    """What a server needs to know of a model."""

    @abstractmethod
    def __init__(self, name: str) -> None:
        self.name = name
        self.ready = False
        self.engine = False

    async def healthy(self) -> bool:
        """Whether the model can serve requests now."""
        return self.ready

    def load(self) -> bool:
        """Load what predicting needs; returns whether the model can serve requests."""
        self.ready = True
        return self.ready

    def start(self) -> Any:
        """Called once, before the server takes requests; may be async, as `load`, `stop` and `stop_engine` may."""
        self.ready = True

    async def start_engine(self) -> None:
        """Run beside the server, where `engine` is true."""
        self.ready = True

    def stop(self) -> Any:
        """Called when the server has answered its last request."""
        self.ready = False

    def stop_engine(self) -> Any:
        """The end of `start_engine`."""
        self.ready = False


class InferenceModel(BaseKServeModel):
    """A model that answers when it is called; `Model` does so by hooks."""

    @abstractmethod
    def __call__(
        self,
        body: Payload,
        headers: dict[str, str] | None = None,
        verb: InferenceVerb = InferenceVerb.PREDICT,
    ) -> Awaitable[Any]: ...

    def get_input_types(self) -> list[dict[str, Any]]:
        """For the metadata of the v2 protocol: `[{"name": …, "datatype": …, "shape": […]}]`."""
        return []

    def get_output_types(self) -> list[dict[str, Any]]:
        """As the inputs."""
        return []


class _OfPredictor:
    """An attribute of the predictor's config that models of kserve 0.13 and before set; unset it is the config's."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name, self._set = name, f"_own_{name}"

    def __get__(self, model: Model | None, _: type) -> Any:
        if model is None:
            return self
        own = getattr(model, self._set, None)
        config = model._own_config or context.get_predictor_config() or _NOBODY
        return getattr(config, self._name) if own is None else own

    def __set__(self, model: Model, value: Any) -> None:
        setattr(model, self._set, value)


class Model(InferenceModel):
    """Override `preprocess`, `predict`, `postprocess` and `explain`, each sync or async.

    A hook that is not overridden costs nothing: bodies go on as they came. Without an own `predict` the predictor is
    asked. Public names are KServe's, as users may have any other for themselves.
    """

    predictor_host = _OfPredictor()
    protocol = _OfPredictor()
    timeout = _OfPredictor()
    use_ssl = _OfPredictor()
    _own_predictor_host: str | None = None

    def __init__(
        self,
        name: str,
        *given: bool | PredictorConfig | None,
        return_response_headers: bool = False,
        predictor_config: PredictorConfig | None = None,
    ) -> None:
        """After the name `return_response_headers`; or, as in kserve 0.13, the config, and then that."""
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
        """This model's, or else the server's; of a model that sets `predictor_host`, its old attributes count too."""
        config = self._own_config or context.get_predictor_config()
        if self._own_predictor_host is None:  # the other names may be of anything
            return config
        given = config or _NOBODY
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
        """All hooks, one after the other; returns the result and the headers for it. The server does not call this
        unless it is overridden: it keeps bodies as bytes where it can, and sync hooks off its event loop.
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
        """Between preprocessing and predicting; raises InvalidInput."""
        if isinstance(payload, dict) and (config := self.predictor_config):
            key = _LISTS.get(config.predictor_protocol)
            if key in payload and not isinstance(payload[key], list):
                raise InvalidInput(f'Expected "{key}" to be a list')
        return payload

    async def preprocess(self, payload: Payload, headers: dict[str, str] | None = None) -> Payload:  # noqa: ARG002
        """From what the client sent to what is predicted on."""
        return payload

    async def predict(
        self,
        payload: Payload,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> Result:
        """Ask the predictor; raises NotImplementedError where there is none, else the errors of `client.errors`."""
        config = self._asked()
        if config.predictor_protocol == PredictorProtocol.GRPC_V2.value:
            return await self._grpc_predict(payload, headers)
        return await self._http_predict(payload, headers, response_headers)

    async def postprocess(
        self,
        result: Result,
        headers: dict[str, str] | None = None,  # noqa: ARG002
        response_headers: dict[str, str] | None = None,  # noqa: ARG002
    ) -> Result:
        """From what was predicted to what the client gets."""
        return result

    async def explain(self, payload: Payload, headers: dict[str, str] | None = None) -> Result:
        """Ask the explainer, or the predictor where `explainer_host` is not set."""
        forwarded = _forwarded(headers)
        client = self._rest_client(PredictorProtocol.REST_V1.value)  # no other has explanations
        return await client.explain(self._explainer_url(), self.name, payload, forwarded)

    def _asked(self) -> PredictorConfig:
        """The predictor that is asked; raises NotImplementedError where there is none."""
        config = self.predictor_config
        if config is None or not config.predictor_host:
            raise NotImplementedError(
                f"Model {self.name} has no predictor to ask: give --predictor_host, or override predict."
            )
        return config

    def _explainer_url(self) -> str:
        """Where explanations come from; raises NotImplementedError where there is nobody to ask."""
        config = self.predictor_config
        if self.explainer_host:
            scheme = "https" if config and config.predictor_use_ssl else "http"
            return EXPLAINER_BASE_URL_FORMAT.format(scheme, self.explainer_host)
        return self._asked().predictor_base_url

    @property
    def _http_client(self) -> InferenceRESTClient:
        """For the predictor as it is configured now; its connections are kept."""
        return self._rest_client((self.predictor_config or _NOBODY).predictor_protocol)

    def _rest_client(self, protocol: str) -> InferenceRESTClient:
        config = self.predictor_config or _NOBODY
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
        """For the predictor as it is configured now; its channel is kept."""
        from transformer_sdk.kserve.grpc_client import InferenceGRPCClient

        config = self._asked()
        key = (config.predictor_host, config.predictor_use_ssl)
        if key not in self._predictor_clients:
            self._predictor_clients[key] = InferenceGRPCClient(
                config.predictor_host,
                use_ssl=config.predictor_use_ssl,
                root_certificates=ca_bundle(os.environ),
                timeout=config.predictor_request_timeout_seconds,
                retries=config.predictor_request_retries,
            )
        client: InferenceGRPCClient = self._predictor_clients[key]
        return client

    async def _close_clients(self) -> None:
        """Close the connections of the event loop that runs."""
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
            self._asked().predictor_base_url,
            data=payload,
            model_name=self.name,
            headers=_forwarded(headers),
            response_headers=response_headers,
        )

    async def _grpc_predict(self, payload: Payload, headers: dict[str, str] | None = None) -> InferResponse:
        request = payload if isinstance(payload, InferRequest) else InferRequest.from_grpc(payload)
        return await self._grpc_client.infer(request, headers=tuple(_forwarded(headers).items()))


def is_v2(protocol: PredictorProtocol) -> bool:
    """Over HTTP or gRPC."""
    return protocol != PredictorProtocol.REST_V1


def ca_bundle(environment: Mapping[str, str]) -> str | None:
    """The file that KServe's controller names for predictors with certificates of a private authority."""
    return environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or None


def _forwarded(headers: RequestHeaders | None) -> dict[str, str]:
    return {name: value for name, value in (headers or {}).items() if name.lower() in forwarding.FORWARDED}
