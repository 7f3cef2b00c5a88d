"""The clients: what each sends to a server, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.conformance.sdk.case import Sdk, cases, table
from tests.conformance.sdk.predictor import scripted_server

Ask = Callable[[Any, str], Any]


async def _rest(sdk: Sdk, ask: Ask, **config: Any) -> Any:
    """What the client made of the answer, and what it had asked."""
    from tests.conformance.sdk.values import raised

    with scripted_server() as (url, seen):
        async with sdk.InferenceRESTClient(sdk.RESTConfig(timeout=30, **{"protocol": "v1", **config})) as client:
            try:
                result = await ask(client, url)
            except Exception as error:  # noqa: BLE001 - it is the outcome
                result = raised(error)
        return [result, seen]


def _rows(protocol: str, rows: dict[str, Ask]) -> dict[str, Any]:
    return {f"{name}, {protocol}": (protocol, ask) for name, ask in rows.items()}


_C = "inference_client.InferenceRESTClient"
_V1 = {"instances": [1]}
_HEADERS = {"x-own": "1", "Content-Type": "application/json; charset=utf-8"}


def _infer_request(sdk: Sdk, *, raw: bool = False) -> Any:
    one = sdk.InferInput("x", [2], "INT64", [1, 2])
    if raw:
        one.set_data_from_numpy(np.array([1, 2]))
    return sdk.InferRequest("m", [one], "7")


def _with_headers(sdk: Sdk) -> Any:
    async def ask(client: Any, url: str) -> Any:
        headers: dict[str, str] = {}
        await client.infer(url, _V1, "m", response_headers=headers)
        return {name: headers[name] for name in ("x-theirs", "content-type")}

    return _rest(sdk, ask)


for _protocol, _data in {"v1": lambda _: _V1, "v2": _infer_request}.items():
    table(
        f"{_C}.infer",
        rows=_rows(_protocol, {
            "asks for predictions": lambda client, url, data: client.infer(url, data, "m"),
            "uses a URL with a path": lambda client, url, data: client.infer(f"{url}/under", data, model_name="m"),
            "asks by a URL that ends with a slash": lambda client, url, data: client.infer(f"{url}/", data, "m"),
            "needs a model's name": lambda client, url, data: client.infer(url, data),
            "sends headers": lambda client, url, data: client.infer(url, data, "m", headers=dict(_HEADERS)),
            "is refused": lambda client, url, data: client.infer(url, data, "refused"),
            "finds no model": lambda client, url, data: client.infer(url, data, "missing"),
            "meets a server that is broken": lambda client, url, data: client.infer(url, data, "broken"),
            "is redirected": lambda client, url, data: client.infer(url, data, "redirected"),
            "gets a response that is not JSON": lambda client, url, data: client.infer(url, data, "garbage"),
            "gets an unexpected document": lambda client, url, data: client.infer(url, data, "empty"),
            "asks a graph": lambda client, url, data: client.infer(f"{url}/graph", data, is_graph_endpoint=True),
            "needs a URL with a scheme": lambda client, url, data: client.infer("127.0.0.1", data, "m"),
        }),
        run=lambda sdk, row, data=_data: _rest(
            sdk, lambda client, url: row[1](client, url, data(sdk)), protocol=row[0]),
    )  # fmt: skip
table(
    f"{_C}.infer",
    rows={
        "takes a dict as v2": ("v2", lambda sdk: {"inputs": []}, "m"),
        "takes bytes": ("v1", lambda sdk: b'{"instances": []}', "m"),
        "sends raw tensors": ("v2", lambda sdk: _infer_request(sdk, raw=True), "m"),
        "reads raw tensors": ("v2", _infer_request, "raw"),
        "takes a v2 request where the protocol is v1": ("v1", _infer_request, "m"),
        "knows the protocol in capitals": ("V2", _infer_request, "m"),
        "refuses another protocol": ("grpc-v2", _infer_request, "m"),
        "refuses an unknown protocol": ("v9", _infer_request, "m"),
    },
    run=lambda sdk, row: _rest(sdk, lambda client, url: client.infer(url, row[1](sdk), row[2]), protocol=row[0]),
)
cases(
    f"{_C}.infer",
    gives_the_headers_of_the_answer=_with_headers,
    sends_a_name_and_a_password=lambda sdk: _rest(
        sdk, lambda client, url: client.infer(url, _V1, "m"), auth=("user", "secret")
    ),
    takes_a_limit_of_time=lambda sdk: _rest(sdk, lambda client, url: client.infer(url, _V1, "m", timeout=30)),
    takes_no_limit_of_time=lambda sdk: _rest(sdk, lambda client, url: client.infer(url, _V1, "m", timeout=None)),
    finds_no_server=lambda sdk: _rest(sdk, lambda client, _: client.infer("http://127.0.0.1:1", _V1, "m"), retries=0),
)
table(
    f"{_C}.explain",
    rows=_rows("v1", {
        "asks for explanations": lambda client, url: client.explain(url, "m", _V1),
        "sends headers": lambda client, url: client.explain(url, "m", _V1, headers=dict(_HEADERS)),
        "is refused": lambda client, url: client.explain(url, "refused", _V1),
    }) | _rows("v2", {"has no such thing": lambda client, url: client.explain(url, "m", _V1)}),
    run=lambda sdk, row: _rest(sdk, row[1], protocol=row[0]),
)  # fmt: skip
_READY: dict[str, dict[str, Ask]] = {
    "is_server_ready": {
        "is asked": lambda client, url: client.is_server_ready(url),
        "is not": lambda client, url: client.is_server_ready(f"{url}/dead"),
        "is refused": lambda client, url: client.is_server_ready(f"{url}/refused"),
        "is unavailable": lambda client, url: client.is_server_ready(f"{url}/busy"),
    },
    "is_server_live": {
        "is asked": lambda client, url: client.is_server_live(url),
        "is not": lambda client, url: client.is_server_live(f"{url}/dead"),
        "is unavailable": lambda client, url: client.is_server_live(f"{url}/busy"),
    },
    "is_model_ready": {
        "is asked": lambda client, url: client.is_model_ready(url, "m"),
        "is asked below a path": lambda client, url: client.is_model_ready(f"{url}/under", "m"),
        "is not": lambda client, url: client.is_model_ready(url, "unready"),
        "is unavailable": lambda client, url: client.is_model_ready(url, "busy"),
        "is not there": lambda client, url: client.is_model_ready(url, "missing"),
        "is broken": lambda client, url: client.is_model_ready(url, "broken"),
    },
}
for _method, _asks in _READY.items():
    for _protocol in ("v1", "v2", "v9"):
        table(f"{_C}.{_method}", rows=_rows(_protocol, _asks), run=lambda sdk, row: _rest(sdk, row[1], protocol=row[0]))


async def _closed(sdk: Sdk) -> Any:
    client = sdk.InferenceRESTClient()
    return [await client.close(), await sdk.InferenceRESTClient(None).close()]


cases(f"{_C}.close", _C, closes_a_client_that_asked_nothing=_closed)
_CONFIG = ("protocol", "retries", "http2", "timeout", "cert", "verify", "auth", "verbose", "transport")
table(
    "inference_client.RESTConfig",
    rows={
        "has defaults": {},
        "keeps what it is given": {
            "protocol": "v2", "retries": 1, "timeout": 5, "auth": ("a", "b"), "verify": False, "verbose": True},
        "keeps a protocol as it is written": {"protocol": "V2"},
        "takes no limit of time": {"timeout": None},
    },
    run=lambda sdk, row: {name: getattr(config, name) for config in [sdk.RESTConfig(**row)] for name in _CONFIG},
)  # fmt: skip
cases(
    "inference_client.RESTConfig",
    takes_a_PredictorProtocol=lambda sdk: sdk.RESTConfig(
        protocol=sdk("constants.constants").PredictorProtocol.REST_V2).protocol,
    takes_HTTP_2=lambda sdk: sdk.RESTConfig(http2=True).http2,
)  # fmt: skip
cases("inference_client.USE_CLIENT_DEFAULT", is_not_None=lambda sdk: sdk("inference_client").USE_CLIENT_DEFAULT is None)

# --- over gRPC

_STATUSES = {
    "refused": grpc.StatusCode.INVALID_ARGUMENT, "missing": grpc.StatusCode.NOT_FOUND,
    "broken": grpc.StatusCode.INTERNAL,
}  # fmt: skip


class _Service(grpc.GenericRpcHandler):
    """A server of the protocol; a model's name says what trouble it has."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(lambda body, context: self._answer(method, body, context))

    def _answer(self, method: str, body: bytes, context: Any) -> bytes:
        asked = getattr(pb, f"{method}Request").FromString(body)
        own = sorted(pair for pair in context.invocation_metadata() if pair[0].startswith("x-"))
        self.seen.append([method, asked, [list(pair) for pair in own]])
        name = getattr(asked, "model_name", "") or getattr(asked, "name", "")
        if name in _STATUSES:
            context.abort(_STATUSES[name], "no")
        answer: Any = {
            "ModelInfer": lambda: pb.ModelInferResponse(
                model_name="m", id="7", outputs=[
                    {"name": "y", "shape": [2], "datatype": "INT64", "contents": {"int64_contents": [1, 2]}}]),
            "ServerReady": lambda: pb.ServerReadyResponse(ready=True),
            "ServerLive": lambda: pb.ServerLiveResponse(live=True),
            "ModelReady": lambda: pb.ModelReadyResponse(ready=name == "m"),
        }[method]()  # fmt: skip
        return bytes(answer.SerializeToString())


async def _grpc(sdk: Sdk, ask: Callable[[Any], Any], **options: Any) -> Any:
    from tests.conformance.sdk.values import raised

    service = _Service()
    server = grpc.server(ThreadPoolExecutor(2), [service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        async with sdk.InferenceGRPCClient(f"127.0.0.1:{port}", timeout=30, **options) as client:
            try:
                result = await ask(client)
            except Exception as error:  # noqa: BLE001 - it is the outcome
                result = raised(error)
        return [result, service.seen]
    finally:
        server.stop(None).wait()


_G = "inference_client.InferenceGRPCClient"
table(
    f"{_G}.infer", _G, f"{_G}.close",
    rows={
        "asks for outputs": ({}, lambda client, request: client.infer(request)),
        "sends metadata": ({}, lambda client, request: client.infer(request, headers=(("x-own", "1"),))),
        "takes a limit of time": ({}, lambda client, request: client.infer(request, timeout=30)),
        "refuses what is not a request": ({}, lambda client, _: client.infer({"inputs": []})),
        "takes arguments of the channel": (
            {"channel_args": [("grpc.max_receive_message_length", -1)]}, lambda client, request: client.infer(request)),
        "does without retries": ({"retries": 0}, lambda client, request: client.infer(request)),
    },
    run=lambda sdk, row: _grpc(sdk, lambda client: row[1](client, _infer_request(sdk)), **row[0]),
)  # fmt: skip
table(
    f"{_G}.infer", rows={f"meets a server that returns {code.name}": name for name, code in _STATUSES.items()},
    run=lambda sdk, name: _grpc(sdk, lambda client: client.infer(
        sdk.InferRequest(name, [sdk.InferInput("x", [1], "INT64", [1])], "7"))),
)  # fmt: skip
for _method in ("is_server_ready", "is_server_live"):
    cases(f"{_G}.{_method}", is_asked=lambda sdk, method=_method: _grpc(sdk, lambda one: getattr(one, method)()))
table(
    f"{_G}.is_model_ready",
    rows={"is asked": "m", "is not": "unready", "is not there": "missing"},
    run=lambda sdk, name: _grpc(sdk, lambda client: client.is_model_ready(name)),
)
