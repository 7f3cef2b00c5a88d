"""What is different on purpose, and which of KServe's names ours has not; and why, for docs/sdk-conformance.md."""

from __future__ import annotations

from collections.abc import Mapping

_DATA = "data is checked against its datatype and shape; wrong data gets a 400 with the error. KServe: 500"
_DOCUMENT = "a document that does not follow the protocol raises `InvalidInput`, a 400. KServe: a `KeyError`, a 500"
_FP16 = "FP16 is sent as JSON like every other number, and over gRPC as raw contents. KServe refuses it"
_STATUS = "`status` is the HTTP status that the client gets, and can be a number"
_RAW_DATA = "`data` also returns data that was set as raw bytes. KServe: `None`"
_CLIENT = (
    "raises `data_plane.client.errors.PredictorError` (with the response's `status`, `message` and `body`) in "
    "place of httpx's `HTTPStatusError` and gRPC's `AioRpcError`: neither package is needed"
)
_BROKEN = "raises `PredictorBroken`, which names the address. KServe: the exception of its JSON parser"
_UNREACHABLE = "raises `PredictorUnreachable`, which names the address. KServe: httpx's `ConnectError` or `InvalidURL`"
_AWAITED = "a sync hook can return an awaitable, and an async hook works where KServe accepts only a sync one"
_STRICT_EVENT = (
    "an event that declares JSON data, but has other data, is refused (400). KServe: bytes for the hooks, or 500"
)
_WHOLE_EVENT = "a request is an event if it has `ce-specversion` or the content type, and must then be complete (400)"
_BASE64 = "a structured event needs no time, and its data can be base64. KServe then gives hooks the whole event"
_VERSIONS = "models have the version 1. KServe: 501 for any version"
_UNREAD = "a body that no hook reads is passed on unread. KServe parses it: 400 or 500"
_OWN_PARAMETERS = "the parameter `binary_data_size` exists only over HTTP"
_LOADED = "`start` loads a model that is not ready. KServe does not serve it"
_ONE_PROTOCOL = "`--protocol` is an alias of `--predictor_protocol`, and each sets both. KServe reads only the latter"

# By the ids of cases, with * for any text. Each one of these must be seen to differ.
DIFFERENT: Mapping[str, str] = {
    "Infer*.as_numpy: refuses data of another size than its shape": _DATA,
    "Infer*.as_numpy: refuses text as numbers": _DATA,
    "InferInput.set_data_from_numpy: takes dates": "inputs accept dates, as outputs do. KServe: an error",
    "InferInput.as_string: gives a flat list of text as text": "text is text already. KServe: `AttributeError`",
    "InferRequest.from_bytes: reads FP16 as JSON": _FP16,
    "Infer*.to_rest: with FP16 as JSON": _FP16,
    "InferRequest.to_grpc: refuse FP16 that is not raw": _FP16,
    "InferRe*.from_bytes: reads raw bytes that are not text": "they are bytes. KServe: an error",
    "InferRequest.to_rest: sends raw text of a body to a predictor": "raw, as received. KServe: as JSON",
    "InferRe*.from_grpc: gives *parameters": "parameters are values, as over HTTP. KServe: gRPC messages",
    "InferRequest.to_grpc: takes parameters that are fractions": "gRPC has them. KServe refuses them",
    "InferResponse.to_rest: sends requested outputs without a form of their own as the request says": (
        "`binary_data_output` applies to all outputs without their own setting. KServe: JSON"
    ),
    "bodies, v2: a parameter that is a list": "400 with `error`. KServe: 422 with `detail`",
    "Infer*.from_bytes: refuses a document without *puts": _DOCUMENT,
    "InferResponse.from_rest: refuses a document without outputs": _DOCUMENT,
    "InferResponse.from_rest: needs no name of a model": "it is empty text. KServe: `None`",
    "InferRequest.from_bytes: refuses a tensor of more bytes than there are": _DATA,
    "InferResponse.from_bytes: reads its model's version": "KServe leaves it out",
    "errors.InferenceError: *status*": _STATUS,
    "utils.utils.get_predict_response: *, v2 with raw outputs": _RAW_DATA,
    "utils.numpy_codec.to_np_dtype: knows 'BF16'": "we support BF16, as 32-bit floats in numpy",
    "utils.numpy_codec.from_np_dtype: knows >i4": "the byte order of an array does not matter",
    "predictor_config.PredictorConfig: takes an unknown protocol": "refused at startup, not on each request",
    "predictor_config.PredictorConfig: takes a whole URL as its host": (
        "the URL is used as it is. KServe: `http://http://…`"
    ),
    "logging.KSERVE_LOG_CONFIG: formats lines by a class": (
        "it indents all but the first line of a record, so that a client's text cannot look like a record"
    ),
    "logging.KSERVE_LOG_CONFIG: formats its servers lines as uvicorn does": "uvicorn writes no lines here",
    "model_repository.ModelRepository.load: of a repository that cannot load": "returns `False`. KServe: `None`",
    "model_server.parser: has the default of --timeout-keep-alive": (
        "3660, not 65: longer than any proxy keeps an idle connection; else a proxy could use one that is closing"
    ),
    "model_server.parser: has the default of --enable_latency_logging": (
        "false: a log line for each request costs more than the request; `/metrics` has the times"
    ),
    "model_server.parser: reads the predictor": _ONE_PROTOCOL,
    "model_server.parser: reads the old name of the protocol": _ONE_PROTOCOL,
    "model.Model: awaits what a sync hook returns": _AWAITED,
    "model.Model.validate: passes instances in *": (
        "arrays of numpy and torch, and tuples, are sent as lists. KServe refuses them"
    ),
    "inference_client.*: is refused, v*": _CLIENT,
    "inference_client.*: is unavailable, v*": _CLIENT,
    "inference_client.*: finds no model, v*": _CLIENT,
    "inference_client.*: meets a server that *": _CLIENT,
    "inference_client.*.is_model_ready: is broken, v1": _CLIENT,
    "inference_client.*.is_model_ready: is not there*": _CLIENT,
    "inference_client.*: is redirected, v*": _BROKEN,
    "inference_client.*: gets a response that is not JSON, v*": _BROKEN,
    "inference_client.*: gets an unexpected document, v2": _BROKEN,
    "inference_client.*: uses a URL with a path, v2": _BROKEN,
    "inference_client.*: finds no server": _UNREACHABLE,
    "inference_client.*: needs a URL with a scheme, v*": _UNREACHABLE,
    "inference_client.*.infer: knows the protocol in capitals": "its path is `/v2` anyway. KServe: `/V2`, a 404",
    "inference_client.RESTConfig: keeps a protocol as it is written": "in lower case, like its path",
    "inference_client.*.infer: takes bytes": "they are sent as JSON, unless a header sets another type",
    "inference_client.*.is_model_ready: is not, v2": "the response's `ready` counts, not only its status",
    "inference_client.RESTConfig: takes HTTP 2": (
        "`transport` and `http2` belong to httpx, and are refused with a reason"
    ),
    # --- servers
    "a transformer: whose client sends a picture": "the predictor gets its content type. KServe: JSON",
    "a transformer: whose client sends instances that are not a list": _UNREAD,
    "a transformer: whose predictor returns invalid JSON": _UNREAD,
    "a transformer: called for an explanation, without an explainer": "the predictor gets the request. KServe: 501",
    "a transformer: whose predictor returns *": (
        "its error reaches the client with its own status and message; `component` names the predictor. KServe: 500"
    ),
    "a transformer: whose predictor redirects": "502 that names the address. KServe: 500",
    "over gRPC: whether the server is ready, with a model that is not": "as over HTTP",
    "over gRPC: the server": "as over HTTP",
    "over gRPC: a model": _VERSIONS,
    "over gRPC: outputs of raw inputs": _OWN_PARAMETERS,
    "over gRPC: outputs of FP16": _OWN_PARAMETERS,
    "over gRPC: data of another size than its shape": "as over HTTP",
    "over gRPC: inference with a model that is not ready": (
        "UNAVAILABLE, as over HTTP. KServe calls it anyway"
    ),
    "over gRPC: a hook that raises *": (
        "the code corresponds to the HTTP status. KServe has others, and UNKNOWN for some"
    ),
    "over gRPC: *loading a model*": "it works. KServe: UNKNOWN",
    "paths: a list of models, v*": _LOADED,
    "paths: the server, v2": "`name`, `version` and `extensions` are ours, so that a client can identify the server",
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
    "hooks: a `predict` that yields": "the content type is set: `application/octet-stream`",
    "hooks: an `explain` that yields": "it is streamed, like `predict`. KServe: 500",
    "`healthy`: sync*": _AWAITED,
    "`healthy`: raises*": "a model whose `healthy` fails is not ready (503, with the message). KServe: 500",
    "what the last hook returns, v1: None": "500: the error says that a hook returns nothing. KServe: 200 and `null`",
    "what the last hook returns, v1: text": "the content type is set: `text/plain`",
    "what the last hook returns, v1: bytes": "the content type is set: `application/octet-stream`",
    "what the last hook returns, v1: an async generator": "the content type is set: `application/octet-stream`",
    "bodies, v2: raw outputs": "the content type is set: `application/octet-stream`",
    "what the last hook returns, v2: no id": "the response has the request's id. KServe: 500",
    "what the last hook returns, v2: a fraction of FP32": (
        "lists are sent as the hook returns them. KServe: rounded to the datatype"
    ),
    "*: FP16 *": _FP16,
    "bodies, v1: JSON with curl's default content type": (
        "a JSON body with curl's default type (a form) is JSON. KServe gives it to hooks as bytes"
    ),
    "bodies, v1: JSON with a charset": "JSON with a charset is JSON. KServe gives it to hooks as bytes",
    "bodies, v2: JSON that is broken": "400 with `error`, like every client error. KServe: 422 with `detail`",
    "bodies, v2: no inputs": "400 with `error`. KServe: 422 with `detail`",
    "bodies, v2: an input without *": "400 with `error`. KServe: 422 with `detail`",
    "bodies, v2: data of another size than its shape": _DATA,
    "bodies, v2: text as numbers": _DATA,
    "CloudEvents: binary, broken JSON*": _STRICT_EVENT,
    "CloudEvents: binary, bytes declared as JSON that are not text": _STRICT_EVENT,
    "CloudEvents: binary, no bytes": _STRICT_EVENT,
    "CloudEvents: binary, an attribute missing": _WHOLE_EVENT,
    "CloudEvents: structured, an attribute missing": _WHOLE_EVENT,
    "CloudEvents: structured": "the response has a `datacontenttype`",
    "CloudEvents: structured, without a time": _BASE64,
    "CloudEvents: structured, data in base64": _BASE64,
    "a model given to `ModelServer.start`: not ready, with*": _LOADED,
    "the start: *`load` of a model that is not ready": _LOADED,
    "the start: an async `start`": _AWAITED,
    "the start: `register_exception_handler`": (
        "the handler is called. KServe registers it with a loop that does not run"
    ),
    "the end: an async `stop`": _AWAITED,
    "a repository whose `load`: is *: registers it and returns False": (
        "503: a `load` that returns `False` has failed, even if an older model of that name exists. KServe: 200"
    ),
    "a repository whose `load`: is awaitable: *": _AWAITED,
    "a repository whose `unload`: is async: *": _AWAITED,
}  # fmt: skip

_WIRE = "`to_rest` and `to_grpc` write the wire format; numbers, text and bytes are parameters as they are"
_METRICS = "created for each server; `/metrics` has the same names and labels"
_FASTAPI = "there is no FastAPI: exceptions of `errors`, FastAPI and Starlette become responses by themselves"
_DATA_PLANE = "internal to the server, and implemented differently"
_CONTROL_PLANE = "belongs to the Kubernetes client: use `kserve` from PyPI, or `kubectl`"
_CLUSTER = "belongs to programs that access the cluster: use `kserve` from PyPI"
_EVENTS = "the server reads and writes CloudEvents"

# By KServe's names, with * for any text. Each one must be a name that ours has not.
NOT_OFFERED: Mapping[str, str] = {
    "api": _CONTROL_PLANE,
    "models": _CONTROL_PLANE,
    "protocol.rest.openai": "OpenAI's API belongs to language model servers, which have their own",
    "protocol.rest.timeseries": "an API of KServe's own forecasting servers",
    "protocol.rest.v2_datamodels": "there are no pydantic models of requests; `from_bytes` reads a body",
    "ray.RayModel": (
        "Ray has its own server. Write an `InferenceModel` whose `__call__` returns `handle.remote(body)`, which is "
        "awaited"
    ),
    "model_server.app": _FASTAPI,
    "errors.*_handler": _FASTAPI,
    "constants.constants.FASTAPI_APP_IMPORT_STRING": _FASTAPI,
    "model_server.ModelServer.setup_event_loop": (
        "internal to the server: set `event_loop` and `max_asyncio_workers`"
    ),
    "model_server.ModelServer.register_signal_handler": "internal to the server: SIGTERM and SIGINT drain",
    "model_server.ModelServer.stop": "a signal stops the server, after requests in progress are finished",
    "model.append_forwardable_headers": "the server does this; it forwards more headers than KServe",
    "model.get_latency_ms": "part of KServe's own logging",
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
        "each model keeps its clients; `InferenceRESTClient(RESTConfig(…))` creates another"
    ),
    "metrics.LLMStats": "part of KServe's language model servers",
    "metrics.*": _METRICS,
    "constants.constants.LLM_STATS_KEY": "part of KServe's language model servers",
    "constants.constants.*": _CLUSTER,
    "utils.utils.*k8s*": _CLUSTER,
    "utils.utils.get_*_namespace": _CLUSTER,
    "utils.utils.cpu_count": "use Python's `len(os.sched_getaffinity(0))`",
    "utils.utils.is_structured_cloudevent": _EVENTS,
    "utils.utils.create_response_cloudevent": _EVENTS,
    "utils.utils.to_headers": "hooks receive gRPC metadata as headers",
}  # fmt: skip

# What is said of a name without running it.
OTHER_PARAMETERS: Mapping[str, str] = {
    "model.Model.__init__": (
        "`predictor_config`, which ours accepts by name or, as in kserve 0.13, after the model's name"
    ),
}

# What cases do not show, as it needs a predictor that fails, or time: tests of ours have it (tests/unit/kserve_sdk).
ALSO = (
    "A predictor that is down causes a 503, one that breaks off or sends an invalid response a 502, "
    "one without a response a 504; each "
    "error names the address. KServe: 500.",
    "`--predictor_request_retries` retries only if nothing was sent: a request that was read is not sent again.",
    "`Model.predictor_host`, set by models of kserve 0.13 and before, is honored, and so are `protocol`, `timeout` "
    "and `use_ssl`; if not set, they have the config's values.",
    "Sync hooks run in `--max_threads` threads, and never block the event loop. KServe runs them on it, and so does 0.",
    "A body is parsed only if a hook reads it. KServe parses and writes every body.",
    "`x-request-id`, `authorization`, W3C and Zipkin trace headers are forwarded to the predictor; "
    "KServe's list is shorter.",
    "Clients accept responses of up to 1 GiB over HTTP and gRPC; a request's timeout includes all attempts to connect.",
    "Clients do not request compressed responses: an `accept-encoding` among a client's headers is not sent.",
    "With `enable_predictor_health_check` the transformer is not ready (503) while its predictor is down. KServe: 500.",
    "Raw outputs and the outputs that a client requests are honored even if a hook's response does not mention them.",
    "If `stop` of one model raises, the others are stopped anyway; with KServe they are not.",
    "Models are loaded and unloaded by request with `--enable_model_api=true` only, and from within the pod. A model "
    "that was unloaded is loaded again; KServe has forgotten it. A server whose last model is unloaded is not ready.",
    "Null members of a JSON document can be left out. Every error has `error` and `component`.",
)
