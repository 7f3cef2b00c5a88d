"""The table of docs/sdk-conformance.md: KServe's SDK as it is installed, and ours, name by name."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.runtimes import ROOT

PAGE = ROOT / "docs/sdk-conformance.md"
OURS = "transformer_sdk.kserve"
_HEAD = """\
# Our SDK beside KServe's

What transformers and predictors use of `kserve` {version}, and what `transformer_sdk.kserve` has under the same name.
*The same* means: the same parameters in the same order, the same attributes and methods. Behaviour is compared by
running one source file on both (`tests/integration/kserve_sdk`) and one test on both
(`tests/unit/kserve_sdk/test_infer_types.py`).

This file is written by `python -m tests.conformance`; a test watches that it is up to date, and that no difference is
without its reason.
"""

# What transformers and predictors import, by module.
NAMES: Mapping[str, tuple[str, ...]] = {
    "": (
        "Model", "ModelServer", "ModelRepository", "PredictorConfig", "InferRequest", "InferResponse", "InferInput",
        "InferOutput", "InferenceRESTClient", "InferenceGRPCClient", "RESTConfig", "model_server", "logging", "utils",
        "constants",
    ),
    "model": (
        "Model", "InferenceModel", "BaseKServeModel", "InferenceVerb", "PredictorConfig", "PredictorProtocol", "is_v2",
    ),
    "model_server": ("ModelServer", "parser", "args", "app"),
    "model_repository": ("ModelRepository", "MODEL_MOUNT_DIRS"),
    "predictor_config": ("PredictorConfig",),
    "context": ("get_predictor_config", "set_predictor_config"),
    "inference_client": ("InferenceRESTClient", "InferenceGRPCClient", "RESTConfig", "USE_CLIENT_DEFAULT"),
    "protocol.infer_type": (
        "InferRequest", "InferResponse", "InferInput", "InferOutput", "RequestedOutput", "serialize_byte_tensor",
        "deserialize_bytes_tensor", "to_grpc_parameters", "to_http_parameters",
    ),
    "protocol.grpc.grpc_predict_v2_pb2": (
        "ModelInferRequest", "ModelInferResponse", "InferParameter", "InferTensorContents",
    ),
    "errors": (
        "InferenceError", "InvalidInput", "ModelMissingError", "ModelNotFound", "ModelNotReady", "NoModelReady",
        "ServerNotLive", "ServerNotReady", "UnsupportedProtocol", "WorkersShouldBeLessThanMaxWorkersError",
    ),
    "logging": ("logger", "trace_logger", "configure_logging", "KSERVE_LOG_CONFIG", "KSERVE_LOGGER_NAME"),
    "constants.constants": (
        "PredictorProtocol", "ModelType", "DEFAULT_HTTP_PORT", "DEFAULT_GRPC_PORT", "MAX_GRPC_MESSAGE_LENGTH",
        "INFERENCE_CONTENT_LENGTH_HEADER",
    ),
    "utils.utils": (
        "generate_uuid", "get_predict_input", "get_predict_response", "strtobool", "is_v1", "is_v2", "cpu_count",
        "is_structured_cloudevent", "create_response_cloudevent", "to_headers",
    ),
    "utils.numpy_codec": ("to_np_dtype", "from_np_dtype"),
    "metrics": ("PRE_HIST_TIME", "PREDICT_HIST_TIME", "POST_HIST_TIME", "EXPLAIN_HIST_TIME", "get_labels"),
    "protocol.dataplane": ("DataPlane",),
}  # fmt: skip

_WIRE = "the wire form is written by `to_rest` and `to_grpc`; numbers, text and bytes are parameters as they are"
_METRICS = "made for each server; the same names and labels are on `/metrics`"
_MORE = "ours has more"

# Why a name is not the same. A name of a class's member follows a dot; a difference without its reason fails the test.
REASONS: Mapping[str, str] = {
    "model_server.app": "there is no FastAPI",
    "protocol.infer_type.serialize_byte_tensor": _WIRE,
    "protocol.infer_type.deserialize_bytes_tensor": _WIRE,
    "protocol.infer_type.to_grpc_parameters": _WIRE,
    "protocol.infer_type.to_http_parameters": _WIRE,
    "utils.utils.cpu_count": "of Python: `len(os.sched_getaffinity(0))`",
    "utils.utils.is_structured_cloudevent": "CloudEvents are unwrapped and wrapped by the server",
    "utils.utils.create_response_cloudevent": "CloudEvents are unwrapped and wrapped by the server",
    "utils.utils.to_headers": "hooks get the metadata of gRPC as headers",
    "protocol.dataplane.DataPlane": "inside the server, and of another make",
    "metrics.PRE_HIST_TIME": _METRICS,
    "metrics.PREDICT_HIST_TIME": _METRICS,
    "metrics.POST_HIST_TIME": _METRICS,
    "metrics.EXPLAIN_HIST_TIME": _METRICS,
    "metrics.get_labels": _METRICS,
    "ModelServer.setup_event_loop": "the server's own affair: `event_loop` and `max_asyncio_workers` say which",
    "ModelServer.register_signal_handler": "the server's own affair: SIGTERM and SIGINT drain",
    "ModelServer.stop": "a signal stops it, and requests under way are answered first",
    "Model.__init__": f"{_MORE}: a `predictor_config`, by name or, as in kserve 0.13, after the model's",
    "InferOutput.set_data_from_numpy": "the array is called `input_tensor`, as in InferInput",
    "InferRequest.from_inference_request": "there are no pydantic models of requests; `from_bytes` reads a body",
}


@dataclass(frozen=True)
class Line:
    """A name, what ours is, and whether a reason was needed and not given."""

    name: str
    ours: str
    unexplained: bool = False


def lines() -> Iterator[Line]:
    """Every name, and every member of a class that is not the same."""
    for module, names in NAMES.items():
        theirs = importlib.import_module(f"kserve.{module}".rstrip("."))
        ours = _module(f"{OURS}.{module}".rstrip("."))
        for name in names:
            yield from _compared(f"{module}.{name}".lstrip("."), getattr(theirs, name), getattr(ours, name, None))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _compared(name: str, theirs: Any, ours: Any) -> Iterator[Line]:
    if ours is None:
        reason = REASONS.get(name)
        yield Line(name, f"– {reason}" if reason else "– **missing**", unexplained=not reason)
        return
    differences = list(_differences(name, theirs, ours))
    yield Line(name, "the same" if not differences else "the same, but for:")
    yield from differences


def _differences(name: str, theirs: Any, ours: Any) -> Iterator[Line]:
    if inspect.isclass(theirs) and not issubclass(theirs, enum.Enum) and not hasattr(theirs, "DESCRIPTOR"):
        for member in ("__init__", *(one for one in vars(theirs) if not one.startswith("_"))):
            if difference := _difference(f"{name.rpartition('.')[2]}.{member}", theirs, ours, member):
                yield difference
    elif inspect.isfunction(theirs) and _parameters(theirs) != _parameters(ours):
        yield _line(name, f"takes {_parameters(ours)}")
    elif isinstance(theirs, (int, str)) and theirs != ours:
        yield _line(name, f"is {ours!r}")


def _difference(name: str, theirs: Any, ours: Any, member: str) -> Line | None:
    found = inspect.getattr_static(theirs, member)
    mine = getattr(ours, member, None)
    if isinstance(found, property) or not callable(getattr(theirs, member)):
        return None  # attributes: made in __init__, and compared by the tests that run on both
    if mine is None:
        return _line(name, "missing")
    if _parameters(getattr(theirs, member)) == _parameters(mine):
        return None
    return _line(name, f"takes {', '.join(_parameters(mine))}")


def _line(name: str, what: str) -> Line:
    reason = REASONS.get(name)
    return Line(f"– {name}", reason or f"**{what}**", unexplained=reason is None)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def flags() -> Iterator[Line]:
    """The flags of the parser."""
    from kserve.model_server import parser as theirs

    from transformer_sdk.kserve.model_server import parser as ours

    defaults = {name: ours.get_default(action.dest) for action in ours._actions for name in action.option_strings}
    for action in theirs._actions:
        for flag in action.option_strings:
            if flag not in defaults:
                yield Line(flag, "**missing**", unexplained=True)
            elif defaults[flag] != action.default:
                reason = FLAGS.get(flag)
                yield Line(flag, f"{defaults[flag]}, not {action.default}: {reason}", unexplained=reason is None)
            else:
                yield Line(flag, "the same")


FLAGS: Mapping[str, str] = {
    "--enable_latency_logging": "a line for each request costs more than the request; the times are in `/metrics`",
    "--timeout-keep-alive": "longer than any proxy keeps an idle connection, or it picks one that is closing",
}


def render() -> str:
    """The whole page."""
    from importlib.metadata import version

    names = [f"| `{line.name}` | {line.ours} |" for line in lines()]
    of_flags = [f"| `{line.name}` | {line.ours} |" for line in flags()]
    parts = [
        _HEAD.format(version=version("kserve")),
        "## Names", "", "| `kserve.` | `transformer_sdk.kserve.` |", "|---|---|", *names, "",
        "## Flags of `model_server.parser`", "", "| flag | ours |", "|---|---|", *of_flags, "",
        "## Behaviour that differs on purpose", "", *(f"- {text}" for text in ON_PURPOSE), "",
    ]  # fmt: skip
    return "\n".join(parts)


ON_PURPOSE = (
    "Clients raise `transformer_sdk.client.errors.PredictorError` (`status`, `message`, `body`) and its siblings, not "
    "those of httpx and grpc; `RESTConfig` takes no `transport` and no `http2`, which are httpx's.",
    "Answers are not asked for compressed: an `accept-encoding` among a client's headers is not sent.",
    "A predictor's error reaches the client with its own status and words; `component` says who said it. KServe: 500.",
    "A predictor that is down is a 503, one that breaks off or talks nonsense a 502, one that is silent a 504; each "
    "names the address. KServe: 500.",
    "`--predictor_request_retries` works, and only where nothing was sent: a request that was read is not sent again.",
    "`explain` asks the predictor where there is no `explainer_host`. KServe: an attribute that does not exist.",
    "`Model.predictor_host`, set by models of kserve 0.13 and before, is honoured, and with it `protocol`, `timeout` "
    "and `use_ssl`; unset they read as the config's.",
    "Sync hooks run in `--max_threads` threads, and never hold the event loop. KServe runs them on it; 0 does too.",
    "A body is read only if a hook looks at it. KServe parses and writes every body.",
    "`x-request-id`, `authorization`, W3C and Zipkin trace headers go on to the predictor; KServe's list is shorter.",
    "A model that is not ready when it is given to `ModelServer.start` is loaded. KServe: `NoModelReady`.",
    "A body without a content type, or one that curl calls a form, is JSON. KServe gives the latter to hooks as bytes.",
    "With `enable_predictor_health_check` a predictor that is down makes the transformer not ready (503). KServe: 500.",
    "Data of a v2 request is held against its datatype and shape when a hook makes an array of it (400). KServe: 500.",
    "Raw outputs and the outputs that a client asks for are honoured though a hook's response says nothing of them.",
)
