"""Names that need no server and no predictor: errors, helpers, settings, logging, flags."""

from __future__ import annotations

import argparse
import contextvars
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.sdk.case import Sdk, cases, table

OWN_LOGGERS = ("transformer_sdk", "data_plane")

# --- names that the package gathers, or that a module has from another

_GATHERED = {
    "Model": "model", "PredictorConfig": "predictor_config", "ModelServer": "model_server",
    "InferenceGRPCClient": "inference_client", "InferenceRESTClient": "inference_client",
    "RESTConfig": "inference_client", "InferRequest": "protocol.infer_type", "InferInput": "protocol.infer_type",
    "InferResponse": "protocol.infer_type", "InferOutput": "protocol.infer_type",
    "ModelRepository": "model_repository",
}  # fmt: skip
for _name, _home in _GATHERED.items():
    cases(
        f"{_home.removeprefix('protocol.infer_type')}.{_name}".lstrip("."),
        is_a_name_of_the_package_too=lambda sdk, name=_name, home=_home: getattr(sdk, name) is getattr(sdk(home), name),
    )
cases(
    "predictor_config.PredictorConfig",
    is_a_name_of_the_module_model_too=lambda sdk: sdk("model").PredictorConfig is sdk.PredictorConfig,
)
cases(
    "constants.constants.KSERVE_MODEL_SERVER_NAME",
    is_in_a_module_that_is_a_name_of_the_package=lambda sdk: sdk.constants.KSERVE_MODEL_SERVER_NAME,
)
cases("utils.utils.strtobool", is_in_a_module_that_is_a_name_of_the_package=lambda sdk: sdk.utils.strtobool("yes"))

_PB = "protocol.grpc.grpc_predict_v2_pb2"
_MESSAGES: dict[str, dict[str, Any]] = {
    "ServerLiveRequest": {}, "ServerLiveResponse": {"live": True}, "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": True}, "ModelReadyRequest": {"name": "m", "version": "1"},
    "ModelReadyResponse": {"ready": True}, "ServerMetadataRequest": {},
    "ServerMetadataResponse": {"name": "n", "version": "1", "extensions": ["e"]},
    "ModelMetadataRequest": {"name": "m", "version": "1"},
    "ModelMetadataResponse": {"name": "m", "versions": ["1"], "platform": "p",
                              "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]},
    "RepositoryModelLoadRequest": {"model_name": "m"},
    "RepositoryModelLoadResponse": {"model_name": "m", "isLoaded": True},
    "RepositoryModelUnloadRequest": {"model_name": "m"},
    "RepositoryModelUnloadResponse": {"model_name": "m", "isUnloaded": True},
    "ModelInferRequest": {"id": "7", "model_name": "m", "inputs": [{"name": "x", "datatype": "INT64", "shape": [1],
                          "contents": {"int64_contents": [1]}}]},
    "ModelInferResponse": {"id": "7", "model_name": "m", "outputs": [{"name": "x", "datatype": "INT64", "shape": [1]}],
                           "raw_output_contents": [b"12345678"]},
    "InferParameter": {"int64_param": 7}, "InferTensorContents": {"fp32_contents": [1.5], "bytes_contents": [b"a"]},
}  # fmt: skip
for _name, _fields in _MESSAGES.items():
    cases(
        f"{_PB}.{_name}",
        is_the_same_bytes=lambda sdk, name=_name, fields=_fields: getattr(sdk(_PB), name)(**fields).SerializeToString(),
    )
for _name in ("InferReturnType", "InferReturnValueTypes"):
    cases(f"model.{_name}", is_there_for_annotations=lambda sdk, name=_name: hasattr(sdk("model"), name))

# --- errors

_ERRORS: dict[str, tuple[Any, ...]] = {
    "InferenceError": ("why",),
    "InvalidInput": ("why",),
    "ModelMissingError": ("/mnt/models",),
    "ModelNotFound": ("m",),
    "ModelNotReady": ("m", "Wait."),
    "ServerNotLive": ("Wait.",),
    "ServerNotReady": ("Wait.",),
    "UnsupportedProtocol": ("v9",),
    "WorkersShouldBeLessThanMaxWorkersError": (4,),
}
_FIELDS = ("reason", "status", "debug_details", "path", "error_msg", "model_name", "detail")


def _error(sdk: Sdk, kind: str, *given: Any) -> Any:
    made = getattr(sdk("errors"), kind)(*given)
    python = [one.__name__ for one in (ValueError, RuntimeError, LookupError) if isinstance(made, one)]
    return [str(made), python, {name: getattr(made, name) for name in _FIELDS if hasattr(made, name)}]


for _kind, _given in _ERRORS.items():
    table(
        f"errors.{_kind}",
        rows={"has its words, fields and bases": (_kind, *_given)},
        run=lambda sdk, row: [part for number, part in enumerate(_error(sdk, *row)) if number < 2],
    )
cases(
    "errors.InferenceError",
    puts_a_status_before_its_words=lambda sdk: _error(sdk, "InferenceError", "why", "INTERNAL", {"a": 1})[0],
    has_the_status_that_it_is_given=lambda sdk: sdk("errors").InferenceError("why", "INTERNAL").status,
    has_no_status_of_its_own=lambda sdk: sdk("errors").InferenceError("why").status,
    takes_a_number_as_its_status=lambda sdk: str(sdk("errors").InferenceError("why", 429)),
)
table(
    "errors.NoModelReady",
    rows={"names one model": (["m"], None), "names more, with a detail": (["m", "n"], "Wait.")},
    run=lambda sdk, row: str(sdk("errors").NoModelReady([_Named(name) for name in row[0]], row[1])),
)


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


# --- utils

table(
    "utils.utils.strtobool",
    rows={f"reads {word!r}": word for word in ("y", "YES", "t", "True", "on", "1", "n", "no", "F", "false", "off", "0",
                                               "", "maybe")},
    run=lambda sdk, word: sdk("utils.utils").strtobool(word),
)  # fmt: skip
_PROTOCOLS: dict[str, Any] = {"v1": "v1", "V1": "V1", "v2": "v2", "V2": "V2", "grpc-v2": "grpc-v2", "nothing": ""}
_CONSTANTS = {f"knows PredictorProtocol.{one}": one for one in ("REST_V1", "REST_V2", "GRPC_V2")}
for _name in ("is_v1", "is_v2"):
    table(
        f"utils.utils.{_name}", rows={f"knows {name!r}": one for name, one in _PROTOCOLS.items()},
        run=lambda sdk, one, name=_name: getattr(sdk("utils.utils"), name)(one),
    )  # fmt: skip
    table(
        f"utils.utils.{_name}", rows=_CONSTANTS,
        run=lambda sdk, one, name=_name: getattr(sdk("utils.utils"), name)(
            sdk("constants.constants").PredictorProtocol[one]),
    )  # fmt: skip
table(
    "model.is_v2", rows=_CONSTANTS,
    run=lambda sdk, one: sdk("model").is_v2(sdk("constants.constants").PredictorProtocol[one]),
)  # fmt: skip
cases("utils.utils.generate_uuid", makes_one=lambda sdk: sdk("utils.utils").generate_uuid())

_INSTANCES = {
    "gives an array of instances": {"instances": [[1, 2], [3, 4]]},
    "gives an array of inputs": {"inputs": [1.5, 2]},
    "gives text as it is": {"instances": ["a", "b"]},
    "gives a frame of records": {"instances": [[{"a": 1, "b": 2}], [{"a": 3, "b": 4}]]},
    "gives a frame of columns": {"instances": [{"a": [1, 2], "b": [3, 4]}]},
    "gives an empty array": {"instances": []},
    "refuses a document without either": {"data": []},
}
table(
    "utils.utils.get_predict_input", rows=_INSTANCES,
    run=lambda sdk, payload: sdk("utils.utils").get_predict_input(payload),
)  # fmt: skip
table(
    "utils.utils.get_predict_input",
    rows={
        "gives an array of the first input": ([("x", [2, 1], "FP32", [1, 2.5])], None),
        "gives text of the first input as it is": ([("x", [2], "BYTES", ["a", "b"])], None),
        "gives a frame where the content type is pd": ([("x", [1], "INT64", [1])], {"content_type": "pd"}),
    },
    run=lambda sdk, row: sdk("utils.utils").get_predict_input(_infer_request(sdk, *row)),
)
cases(
    "utils.utils.get_predict_input",
    takes_the_columns_that_are_named=lambda sdk: sdk("utils.utils").get_predict_input(
        {"instances": [[{"a": 1, "b": 2}]]}, columns=["b"]
    ),
)


def _infer_request(sdk: Sdk, inputs: Any = (("x", [1], "INT64", [1]),), parameters: Any = None) -> Any:
    return sdk.InferRequest("m", [sdk.InferInput(*one) for one in inputs], "7", parameters=parameters)


def _frame(**columns: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


_RESULTS: dict[str, Any] = {
    "takes an array": lambda: np.array([[1.5], [2]], np.float32),
    "takes a list of numbers": lambda: [1, 2],
    "takes a list of text": lambda: ["a", "b"],
    "takes an empty list": list,
    "takes a frame": lambda: _frame(a=[1, 2], b=[1.5, 2.5]),
    "takes a frame with text": lambda: _frame(a=["x", "y"]),
    "takes a frame with dates": lambda: _frame(a=np.array(["2024-02-03T04:05:06"], "datetime64[ns]")),
    "takes FP16": lambda: np.array([0.5], np.float16),
}
for _form, _payload in {"v1": None, "v2": {}, "v2 with raw outputs": {"binary_data_output": True}}.items():
    table(
        "utils.utils.get_predict_response", rows={f"{name}, {_form}": make for name, make in _RESULTS.items()},
        run=lambda sdk, make, parameters=_payload: sdk("utils.utils").get_predict_response(
            {"instances": []} if parameters is None else _infer_request(sdk, parameters=parameters), make(), "m"),
    )  # fmt: skip
cases(
    "utils.utils.get_predict_response",
    refuses_another_payload=lambda sdk: sdk("utils.utils").get_predict_response([1], [1], "m"),
    makes_an_id=lambda sdk: sdk("utils.utils").get_predict_response(
        sdk.InferRequest("m", [sdk.InferInput("x", [1], "INT64", [1])]), [1], "m"
    ),
)

# --- datatypes

_DATATYPES = ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64",
              "BYTES", "BF16", "fp32", "")  # fmt: skip
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
           "float64", "object", "S3", "U3", "datetime64[ns]", "datetime64[D]", "timedelta64[s]", "complex64",
           ">i4")  # fmt: skip
table(
    "utils.numpy_codec.to_np_dtype", rows={f"knows {one!r}": one for one in _DATATYPES},
    run=lambda sdk, one: (found := sdk("utils.numpy_codec").to_np_dtype(one)) and np.dtype(found),
)  # fmt: skip
table(
    "utils.numpy_codec.from_np_dtype", rows={f"knows {one}": one for one in _DTYPES},
    run=lambda sdk, one: sdk("utils.numpy_codec").from_np_dtype(np.dtype(one)),
)  # fmt: skip

# --- what a server knows of its predictor

_CONFIG = ("predictor_host", "predictor_protocol", "predictor_use_ssl", "predictor_request_timeout_seconds",
           "predictor_request_retries", "predictor_health_check", "predictor_base_url", "protocol", "timeout",
           "retries", "use_ssl")  # fmt: skip
table(
    "predictor_config.PredictorConfig", *(f"predictor_config.PredictorConfig.{name}" for name in _CONFIG),
    rows={
        "has defaults": ("h",),
        "keeps what it is given": ("h:80", "v2", True, 5, 2, True),
        "takes no host": (None,),
    },
    run=lambda sdk, row: {name: getattr(sdk.PredictorConfig(*row), name) for name in _CONFIG},
)  # fmt: skip
cases(
    "predictor_config.PredictorConfig",
    takes_an_unknown_protocol=lambda sdk: sdk.PredictorConfig("h", "v9").predictor_protocol,
    takes_a_whole_URL_as_its_host=lambda sdk: sdk.PredictorConfig("http://h").predictor_base_url,
)


def _context(sdk: Sdk, config: Any) -> Any:
    context = sdk("context")
    context.set_predictor_config(config)
    return context.get_predictor_config() is config


cases(
    "context.set_predictor_config", "context.get_predictor_config",
    is_of_the_context=lambda sdk: contextvars.copy_context().run(_context, sdk, sdk.PredictorConfig("h")),
    is_None_where_none_was_set=lambda sdk: contextvars.Context().run(sdk("context").get_predictor_config),
)  # fmt: skip

# --- logging


def _keys(config: Any) -> Any:
    return {name: sorted(one) if isinstance(one, dict) else one for name, one in config.items()}


def _configured(sdk: Sdk, make: Any) -> Any:
    """The level and handlers of two loggers after a configuration; the process's own is put back."""
    theirs = sdk("logging")
    loggers = [theirs.logger, theirs.trace_logger]
    before = [(one.level, list(one.handlers), one.propagate) for one in loggers]
    try:
        with tempfile.TemporaryDirectory() as folder:
            for one in loggers:
                one.handlers[:] = []
            theirs.configure_logging(make(Path(folder)))
            return [(one.name, one.level, [type(handler).__name__ for handler in one.handlers]) for one in loggers]
    finally:
        for one, (level, handlers, propagate) in zip(loggers, before, strict=True):
            one.setLevel(level)
            one.handlers[:], one.propagate = handlers, propagate


_DICT = {
    "version": 1, "disable_existing_loggers": False,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {"kserve": {"handlers": ["none"], "level": "DEBUG"}},
}  # fmt: skip
_INI = """[loggers]\nkeys=root,kserve\n[handlers]\nkeys=none\n[formatters]\nkeys=\n[logger_root]\nhandlers=
[logger_kserve]\nlevel=ERROR\nhandlers=none\nqualname=kserve\n[handler_none]\nclass=NullHandler\nargs=()\n"""


def _written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


cases(
    "logging.configure_logging",
    takes_a_dictConfig=lambda sdk: _configured(sdk, lambda _: _DICT),
    reads_JSON=lambda sdk: _configured(sdk, lambda folder: _written(folder, "a.json", json.dumps(_DICT))),
    reads_YAML=lambda sdk: _configured(sdk, lambda folder: _written(folder, "a.yaml", json.dumps(_DICT))),
    reads_a_fileConfig=lambda sdk: _configured(sdk, lambda folder: _written(folder, "a.ini", _INI)),
    has_a_default=lambda sdk: _configured(sdk, lambda _: None),
    refuses_a_file_that_is_not_there=lambda sdk: _configured(sdk, lambda _: "/nowhere.json"),
)
cases("logging.logger", has_KServes_name=lambda sdk: sdk("logging").logger.name)
cases("logging.trace_logger", has_KServes_name=lambda sdk: sdk("logging").trace_logger.name)


def _log_config(sdk: Sdk) -> Any:
    return sdk("logging").KSERVE_LOG_CONFIG


cases(
    "logging.KSERVE_LOG_CONFIG",
    has_KServes_keys=lambda sdk: {
        name: one if not isinstance(one, dict) else [key for key in sorted(one) if key not in OWN_LOGGERS]
        for name, one in _log_config(sdk).items()
    },
    has_KServes_keys_for_each_formatter=lambda sdk: {
        name: sorted(one) for name, one in _log_config(sdk)["formatters"].items() if name.startswith("kserve")
    },
    has_KServes_keys_for_its_servers_formatters=lambda sdk: {
        name: sorted(set(one) - {"use_colors"})
        for name, one in _log_config(sdk)["formatters"].items()
        if name.startswith("uvicorn")
    },
    has_KServes_formats_and_handlers=lambda sdk: [
        {
            name: {key: value for key, value in one.items() if key != "()"}
            for name, one in _log_config(sdk)["formatters"].items()
            if name.startswith("kserve")
        },
        _log_config(sdk)["handlers"],
        {name: one for name, one in _log_config(sdk)["loggers"].items() if name not in OWN_LOGGERS},
    ],
    formats_lines_by_a_class=lambda sdk: [one["()"] for one in _log_config(sdk)["formatters"].values()],
    formats_its_servers_lines_as_uvicorn_does=lambda sdk: _log_config(sdk)["formatters"]["uvicorn"]["fmt"],
)

# --- the model repository without a server


def _repository(sdk: Sdk, *names: str, ready: bool = True) -> Any:
    repository = sdk.ModelRepository("/nowhere")
    for name in names:
        model = sdk.Model(name)
        model.ready = ready
        repository.update(model)
    return repository


def _names(repository: Any) -> Any:
    return {name: (model.name, model.ready) for name, model in repository.get_models().items()}


def _aliased(sdk: Sdk) -> Any:
    repository = _repository(sdk, "m")
    repository.update(repository.get_model("m"), "alias")
    return _names(repository)


def _unloaded(sdk: Sdk, name: str) -> Any:
    repository = _repository(sdk, "m", "n")
    model = repository.get_model("m")
    return [repository.unload(name), _names(repository), model.ready]


def _folders(sdk: Sdk) -> Any:
    class Recording(sdk.ModelRepository):  # type: ignore[name-defined, misc]
        def load_model(self, name: str) -> bool:
            seen.append(name)
            return True

    seen: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            (Path(folder) / name).mkdir()
        (Path(folder) / "file").touch()
        repository = Recording()
        repository.set_models_dir(folder)
        repository.load_models()
    return sorted(seen)


_R = "model_repository.ModelRepository"
cases(
    _R, f"{_R}.get_models", f"{_R}.get_model", f"{_R}.update",
    has_the_models_it_is_given=lambda sdk: _names(_repository(sdk, "m", "n")),
    knows_a_model_by_another_name_too=_aliased,
    has_None_for_a_model_that_is_not_there=lambda sdk: _repository(sdk).get_model("m"),
    knows_its_folder=lambda sdk: [sdk.ModelRepository().models_dir, _repository(sdk).models_dir],
)  # fmt: skip
cases(
    f"{_R}.is_model_ready",
    asks_the_model=lambda sdk: _repository(sdk, "m").is_model_ready("m"),
    asks_a_model_that_is_not_ready=lambda sdk: _repository(sdk, "m", ready=False).is_model_ready("m"),
    is_False_for_a_model_that_is_not_there=lambda sdk: _repository(sdk).is_model_ready("m"),
)
cases(f"{_R}.load_models", f"{_R}.set_models_dir", f"{_R}.load_model", loads_every_folder=_folders)
cases(
    f"{_R}.unload",
    stops_a_model_and_forgets_it=lambda sdk: _unloaded(sdk, "m"),
    refuses_a_model_that_is_not_there=lambda sdk: _unloaded(sdk, "x"),
)
cases(
    f"{_R}.load", f"{_R}.load_model",
    of_a_repository_that_cannot_load=lambda sdk: [_repository(sdk).load("x"), _repository(sdk).load_model("x")],
)  # fmt: skip

# --- flags

_ARGUMENTS: dict[str, list[str]] = {
    "has defaults": [],
    "reads the ports": ["--http_port=1", "--grpc_port=2"],
    "reads the predictor": ["--model_name=m", "--predictor_host=h", "--predictor_protocol=v2", "--predictor_use_ssl=1",
                            "--predictor_request_timeout_seconds=5", "--predictor_request_retries=2",
                            "--enable_predictor_health_check"],
    "reads the old name of the protocol": ["--protocol=v2"],
    "reads the server": ["--workers=2", "--max_threads=8", "--max_asyncio_workers=3", "--enable_grpc=false",
                         "--enable_docs_url=true", "--enable_latency_logging=no", "--configure_logging=off",
                         "--log_config_file=f", "--access_log_format=a", "--event-loop=asyncio",
                         "--timeout-keep-alive=9"],
    "reads HTTPS": ["--ssl_certfile=c", "--ssl_keyfile=k"],
    "reads sizes of gRPC": ["--grpc_max_send_message_length=1", "--grpc_max_receive_message_length=2"],
    "refuses another protocol": ["--predictor_protocol=v9"],
    "refuses what is neither true nor false": ["--enable_grpc=maybe"],
    "refuses a port that is not a number": ["--http_port=x"],
    "refuses another event loop": ["--event-loop=trio"],
}  # fmt: skip
_DEFAULTS = ["--timeout-keep-alive=9", "--enable_latency_logging=no"]  # theirs have cases of their own
_OURS_ALONE = ("max_request_size", "max_connections", "max_buffered_bytes", "enable_model_api")


def _parsed(sdk: Sdk, arguments: list[str], prepare: Any = lambda _: None, **more: Any) -> Any:
    parser = argparse.ArgumentParser(parents=[sdk("model_server").parser], **more)
    prepare(parser)
    with open(os.devnull, "w") as nowhere, _stderr(nowhere):  # noqa: PTH123
        try:
            parsed = vars(parser.parse_args(arguments))
        except SystemExit as end:
            return f"exit {end.code}"
    return {name: value for name, value in sorted(parsed.items()) if name not in _OURS_ALONE}


def _stderr(target: Any) -> Any:
    import contextlib

    return contextlib.redirect_stderr(target)


table("model_server.parser", rows=_ARGUMENTS, run=lambda sdk, given: _parsed(sdk, [*given, *_DEFAULTS]))
table(
    "model_server.parser",
    rows={f"has the default of --{name}": name for name in ("timeout-keep-alive", "enable_latency_logging")},
    run=lambda sdk, name: sdk("model_server").parser.get_default(name.replace("-", "_")),
)


def _own_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--predictor_host", required=True)
    parser.add_argument("--model_name", help="of the program")


cases(
    "model_server.parser",
    is_a_parent_that_has_a_flag_of_the_program_already=lambda sdk: _parsed(sdk, [], _own_flag),
    lets_a_program_resolve_the_conflict_itself=lambda sdk: _parsed(
        sdk, ["--predictor_host=h", *_DEFAULTS], _own_flag, conflict_handler="resolve"
    ),
)
cases("model_server.args", is_what_the_process_was_started_with=lambda sdk: sdk("model_server").args.model_name)
