"""What is different on purpose, and which of KServe's names ours has not; and why, for docs/sdk-conformance.md."""

from __future__ import annotations

from collections.abc import Mapping

_DATA = (
    "data is held against its datatype and shape, and what a client has sent wrong is a 400 that says what. KServe: 500"
)
_DOCUMENT = "a document that is not of the protocol is `InvalidInput`, a 400. KServe: a `KeyError`, a 500"
_FP16 = "FP16 goes as JSON like every other number, and over gRPC as raw contents. KServe refuses it"
_STATUS = "`status` is the HTTP status that the client gets, and may be given as a number"
_RAW_DATA = "what is set as raw bytes is read as `data` too. KServe: `None`"
_CLIENT = (
    "raises `data_plane.client.errors.PredictorError` (with the answer's `status`, `message` and `body`) in the "
    "place of httpx's `HTTPStatusError` and gRPC's `AioRpcError`: neither package is needed"
)
_BROKEN = "raises `PredictorBroken`, which names the address. KServe: what its JSON parser raises"
_UNREACHABLE = "raises `PredictorUnreachable`, which names the address. KServe: httpx's `ConnectError` or `InvalidURL`"
_AWAITED = "a sync hook may return an awaitable, and an async one works wherever KServe takes a sync one alone"
_STRICT_EVENT = (
    "an event that says its data is JSON and whose data is none is refused (400). KServe: bytes for the hooks, or 500"
)
_WHOLE_EVENT = "an event is one if `ce-specversion` or its content type says so, and then it must be whole (400)"
_BASE64 = "a structured event needs no time, and its data may be in base64. KServe gives hooks the whole event then"
_VERSIONS = "models have the version 1. KServe: 501 for any version"
_UNREAD = "what no hook looks at is passed on unread. KServe reads it: 400 or 500"
_OWN_PARAMETERS = "the parameter `binary_data_size` is of HTTP alone"
_LOADED = "a model that is not ready when it is given to `start` is loaded. KServe does not serve it"
_ONE_PROTOCOL = (
    "`--protocol` is another name of `--predictor_protocol`, and each sets both. KServe reads the latter alone"
)

# By the ids of cases, with * for any text. Each one of these must be seen to differ.
DIFFERENT: Mapping[str, str] = {
    "Infer*.as_numpy: refuses data of another size than its shape": _DATA,
    "Infer*.as_numpy: refuses text as numbers": _DATA,
    "InferInput.set_data_from_numpy: takes dates": "inputs take dates as outputs do. KServe: an error",
    "InferInput.as_string: gives a flat list of text as text": "text is text already. KServe: `AttributeError`",
    "InferRequest.from_bytes: reads FP16 as JSON": _FP16,
    "Infer*.to_rest: with FP16 as JSON": _FP16,
    "InferRequest.to_grpc: refuse FP16 that is not raw": _FP16,
    "InferRe*.from_bytes: reads raw bytes that are no text": "they are bytes. KServe: an error",
    "InferRequest.to_rest: sends raw text of a body to a predictor": "raw, as it came. KServe: as JSON",
    "InferRe*.from_grpc: gives *parameters": "parameters are values, as over HTTP. KServe: messages of gRPC",
    "InferRequest.to_grpc: takes parameters that are fractions": "gRPC has them. KServe refuses them",
    "InferResponse.to_rest: sends outputs that are wanted without a form as the request says": (
        "`binary_data_output` is for all outputs that say nothing of their own. KServe: JSON"
    ),
    "bodies, v2: a parameter that is a list": "400 with `error`. KServe: 422 with `detail`",
    "Infer*.from_bytes: refuses a document without *puts": _DOCUMENT,
    "InferResponse.from_rest: refuses a document without outputs": _DOCUMENT,
    "InferRequest.from_bytes: refuses a tensor of more bytes than there are": _DATA,
    "InferResponse.from_bytes: reads its model's version": "KServe leaves it out",
    "errors.InferenceError: *status*": _STATUS,
    "utils.utils.get_predict_response: *, v2 with raw outputs": _RAW_DATA,
    "utils.numpy_codec.to_np_dtype: knows 'BF16'": "BF16 is a datatype of ours, 32-bit floats in numpy",
    "utils.numpy_codec.from_np_dtype: knows >i4": "the order of an array's bytes is nobody's business",
    "predictor_config.PredictorConfig: takes a protocol that is none": "refused at the start, not by each request",
    "predictor_config.PredictorConfig: takes a whole URL as its host": "it is taken as it is. KServe: `http://http://…`",
    "logging.KSERVE_LOG_CONFIG: formats lines by a class": (
        "it indents what is not a record's first line: what clients send cannot pass for a record"
    ),
    "logging.KSERVE_LOG_CONFIG: formats its servers lines as uvicorn does": "there is no line of uvicorn's to format",
    "model_repository.ModelRepository.load: of a repository that cannot load": "says `False`. KServe: `None`",
    "model_server.parser: has the default of --timeout-keep-alive": (
        "3660, not 65: longer than any proxy keeps an idle connection, or it picks one that is closing"
    ),
    "model_server.parser: has the default of --enable_latency_logging": (
        "false: a line for each request costs more than the request; the times are in `/metrics`"
    ),
    "model_server.parser: reads the predictor": _ONE_PROTOCOL,
    "model_server.parser: reads the old name of the protocol": _ONE_PROTOCOL,
    "model.Model: awaits what a sync hook returns": _AWAITED,
    "inference_client.*: is refused, v*": _CLIENT,
    "inference_client.*: is unavailable, v*": _CLIENT,
    "inference_client.*: finds no model, v*": _CLIENT,
    "inference_client.*: meets a server that *": _CLIENT,
    "inference_client.*.is_model_ready: is broken, v1": _CLIENT,
    "inference_client.*.is_model_ready: is not there*": _CLIENT,
    "inference_client.*: is redirected, v*": _BROKEN,
    "inference_client.*: gets no JSON, v*": _BROKEN,
    "inference_client.*: gets another document, v2": _BROKEN,
    "inference_client.*: asks below a path, v2": _BROKEN,
    "inference_client.*: finds nobody": _UNREACHABLE,
    "inference_client.*: needs a URL with a scheme, v*": _UNREACHABLE,
    "inference_client.*.infer: knows the protocol in capitals": "its path is `/v2` all the same. KServe: `/V2`, a 404",
    "inference_client.RESTConfig: keeps a protocol as it is written": "in small letters, as its path is",
    "inference_client.*.infer: takes bytes": "they are said to be JSON, unless a header says otherwise",
    "inference_client.*.is_model_ready: is not, v2": "the answer's `ready` counts, not its status alone",
    "inference_client.RESTConfig: takes HTTP 2": "`transport` and `http2` are httpx's, and refused with a reason",
    # --- servers
    "a transformer: whose client sends a picture": "the predictor is told that it is one. KServe: JSON",
    "a transformer: whose client sends instances that are no list": _UNREAD,
    "a transformer: whose predictor answers with what is no JSON": _UNREAD,
    "a transformer: asked for an explanation, without an explainer": "the predictor is asked. KServe: 501",
    "a transformer: whose predictor says *": (
        "its error reaches the client with its own status and words; `component` says who said it. KServe: 500"
    ),
    "a transformer: whose predictor redirects": "502 that names the address. KServe: 500",
    "over gRPC: whether the server is ready, with a model that is not": "as over HTTP",
    "over gRPC: the server": "as over HTTP",
    "over gRPC: a model": _VERSIONS,
    "over gRPC: outputs of raw inputs": _OWN_PARAMETERS,
    "over gRPC: outputs of FP16": _OWN_PARAMETERS,
    "over gRPC: data of another size than its shape": "as over HTTP",
    "over gRPC: a model to infer with that says it is not ready": (
        "UNAVAILABLE, as over HTTP. KServe asks it for a prediction all the same"
    ),
    "over gRPC: a hook that raises *": "the code is that of the HTTP status. KServe has others, and UNKNOWN for some",
    "over gRPC: *loading a model*": "it works. KServe: UNKNOWN",
    "paths: a list of models, v*": _LOADED,
    "paths: the server, v2": "`name`, `version` and `extensions` are ours: a client should know whom it speaks with",
    "paths: whether the server is ready, with a model that is not": (
        "503 with the models' names: the protocol's server is ready when all of its models are. KServe: always 200"
    ),
    "paths: a model, v2": _VERSIONS,
    "paths: *a model in a version*": _VERSIONS,
    "bodies, v2: a model in a version": _VERSIONS,
    "`get_input_types`: a list": _VERSIONS,
    "`get_input_types`: async": _VERSIONS,
    "`get_input_types`: sync, returns an awaitable": _AWAITED,
    "hooks: an async `validate`": _AWAITED,
    "hooks: a `predict` that yields": "the content type is named: `application/octet-stream`",
    "hooks: an `explain` that yields": "it is streamed, as `predict` is. KServe: 500",
    "`healthy`: sync*": _AWAITED,
    "`healthy`: raises*": "a model that cannot say whether it is ready is not (503, with the words). KServe: 500",
    "what the last hook returns, v1: None": "500 that says that a hook has no return. KServe: 200 and `null`",
    "what the last hook returns, v1: text": "the content type is named: `text/plain`",
    "what the last hook returns, v1: bytes": "the content type is named: `application/octet-stream`",
    "what the last hook returns, v1: an async generator": "the content type is named: `application/octet-stream`",
    "bodies, v2: raw outputs": "the content type is named: `application/octet-stream`",
    "what the last hook returns, v2: no id": "the answer has the request's id. KServe: 500",
    "what the last hook returns, v2: a fraction of FP32": (
        "lists are sent as the hook has them. KServe: rounded to the datatype"
    ),
    "*: FP16 *": _FP16,
    "bodies, v1: a form, as curl says": "what curl calls a form is JSON. KServe gives it to hooks as bytes",
    "bodies, v1: JSON with a charset": "JSON is JSON with a charset, too. KServe gives it to hooks as bytes",
    "bodies, v2: JSON that is broken": "400 with `error`, as all that a client sends wrong. KServe: 422 with `detail`",
    "bodies, v2: no inputs": "400 with `error`. KServe: 422 with `detail`",
    "bodies, v2: an input without *": "400 with `error`. KServe: 422 with `detail`",
    "bodies, v2: data of another size than its shape": _DATA,
    "bodies, v2: text as numbers": _DATA,
    "CloudEvents: binary, broken JSON*": _STRICT_EVENT,
    "CloudEvents: binary, bytes that are no text called JSON": _STRICT_EVENT,
    "CloudEvents: binary, no bytes": _STRICT_EVENT,
    "CloudEvents: binary, an attribute missing": _WHOLE_EVENT,
    "CloudEvents: structured, an attribute missing": _WHOLE_EVENT,
    "CloudEvents: structured": "the answer says its `datacontenttype`",
    "CloudEvents: structured, without a time": _BASE64,
    "CloudEvents: structured, data in base64": _BASE64,
    "a model given to `ModelServer.start`: not ready, with*": _LOADED,
    "the start: *`load` of a model that is not ready": _LOADED,
    "the start: an async `start`": _AWAITED,
    "the start: `register_exception_handler`": "the handler is called. KServe gives it to a loop that does not run",
    "the end: an async `stop`": _AWAITED,
    "a repository whose `load`: is *: registers it and returns False": (
        "503: a `load` that says no has failed, also where a model of that name is there, as an older one. KServe: 200"
    ),
    "a repository whose `load`: is awaitable: *": _AWAITED,
    "a repository whose `unload`: is async: *": _AWAITED,
}  # fmt: skip

_WIRE = "the wire form is written by `to_rest` and `to_grpc`; numbers, text and bytes are parameters as they are"
_METRICS = "made for each server; the same names and labels are on `/metrics`"
_FASTAPI = "there is no FastAPI: errors of `errors` become answers by themselves, as those of FastAPI and Starlette do"
_DATA_PLANE = "inside the server, and of another make"
_CONTROL_PLANE = "of the client for Kubernetes: use `kserve` from PyPI, or `kubectl`"
_CLUSTER = "of programs that speak with the cluster: use `kserve` from PyPI"
_EVENTS = "CloudEvents are unwrapped and wrapped by the server"

# By KServe's names, with * for any text. Each one must be a name that ours has not.
NOT_OFFERED: Mapping[str, str] = {
    "api": _CONTROL_PLANE,
    "models": _CONTROL_PLANE,
    "protocol.rest.openai": "OpenAI's API is that of servers of language models, which bring their own",
    "protocol.rest.timeseries": "an API of KServe's own servers of forecasts",
    "protocol.rest.v2_datamodels": "there are no pydantic models of requests; `from_bytes` reads a body",
    "ray.RayModel": (
        "Ray has its own server. An `InferenceModel` whose `__call__` returns `handle.remote(body)` does it: that is "
        "awaited"
    ),
    "model_server.app": _FASTAPI,
    "errors.*_handler": _FASTAPI,
    "constants.constants.FASTAPI_APP_IMPORT_STRING": _FASTAPI,
    "model_server.ModelServer.setup_event_loop": (
        "the server's own affair: `event_loop` and `max_asyncio_workers` say which"
    ),
    "model_server.ModelServer.register_signal_handler": "the server's own affair: SIGTERM and SIGINT drain",
    "model_server.ModelServer.stop": "a signal stops it, and requests under way are answered first",
    "model.append_forwardable_headers": "done for the predictor by the server; more headers go on than with KServe",
    "model.get_latency_ms": "of KServe's own logging",
    "protocol.infer_type.serialize_byte_tensor": _WIRE,
    "protocol.infer_type.deserialize_bytes_tensor": _WIRE,
    "protocol.infer_type.get_content": _WIRE,
    "protocol.infer_type.to_grpc_parameters": _WIRE,
    "protocol.infer_type.to_http_parameters": _WIRE,
    "constants.constants.GRPC_CONTENT_DATATYPE_MAPPINGS": _WIRE,
    "protocol.infer_type.InferRequest.from_inference_request": (
        "there are no pydantic models of requests; `from_bytes` reads a body"
    ),
    "protocol.dataplane.*": _DATA_PLANE,
    "protocol.model_repository_extension.*": _DATA_PLANE,
    "utils.inference_client_factory.*": (
        "each model keeps its clients; `InferenceRESTClient(RESTConfig(…))` makes another"
    ),
    "metrics.LLMStats": "of KServe's servers of language models",
    "metrics.*": _METRICS,
    "constants.constants.LLM_STATS_KEY": "of KServe's servers of language models",
    "constants.constants.*": _CLUSTER,
    "utils.utils.*k8s*": _CLUSTER,
    "utils.utils.get_*_namespace": _CLUSTER,
    "utils.utils.cpu_count": "of Python: `len(os.sched_getaffinity(0))`",
    "utils.utils.is_structured_cloudevent": _EVENTS,
    "utils.utils.create_response_cloudevent": _EVENTS,
    "utils.utils.to_headers": "hooks get the metadata of gRPC as headers",
}  # fmt: skip

# What is said of a name without running it.
OTHER_PARAMETERS: Mapping[str, str] = {
    "model.Model.__init__": "a `predictor_config` that ours takes too, by name or, as in kserve 0.13, after the name",
}

# What cases do not show, as it needs a predictor that fails, or time: tests of ours have it (tests/unit/kserve_sdk).
ALSO = (
    "A predictor that is down is a 503, one that breaks off or talks nonsense a 502, one that is silent a 504; each "
    "names the address. KServe: 500.",
    "`--predictor_request_retries` works, and only where nothing was sent: a request that was read is not sent again.",
    "`Model.predictor_host`, set by models of kserve 0.13 and before, is honoured, and with it `protocol`, `timeout` "
    "and `use_ssl`; unset they read as the config's.",
    "Sync hooks run in `--max_threads` threads, and never hold the event loop. KServe runs them on it; 0 does too.",
    "A body is read only if a hook looks at it. KServe parses and writes every body.",
    "`x-request-id`, `authorization`, W3C and Zipkin trace headers go on to the predictor; KServe's list is shorter.",
    "Clients take answers of up to 1 GiB over HTTP and gRPC; a request's time is that of all attempts to connect, too.",
    "Answers are not asked for compressed: an `accept-encoding` among a client's headers is not sent.",
    "With `enable_predictor_health_check` a predictor that is down makes the transformer not ready (503). KServe: 500.",
    "Raw outputs and the outputs that a client asks for are honoured though a hook's response says nothing of them.",
    "`stop` of one model that raises keeps no other from being stopped; with KServe it does.",
    "Members of a JSON document that would be null may be left out; every error has `error`, and says who said it.",
)
