"""Models and servers without a port: what `Model` calls when it is called, and what `ModelServer` refuses."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import numpy as np

from tests.conformance.sdk.case import Sdk, cases, table

_HOOKS = ("preprocess", "validate", "predict", "explain", "postprocess")


def _hooked(sdk: Sdk, **hooks: Any) -> Any:
    """A model with these hooks, which is ready."""
    model = type("Hooked", (sdk.Model,), hooks)("m")
    model.ready = True
    return model


def _marks(name: str, *, is_async: bool) -> Any:
    """A hook that adds its name to what it is given."""
    if is_async:

        async def later(self: Any, payload: Any, headers: Any = None) -> Any:
            return {**payload, name: headers}

        return later

    def now(self: Any, payload: Any, headers: Any = None) -> Any:
        return {**payload, name: headers}

    return now


def _all(*, is_async: bool) -> dict[str, Any]:
    return {name: _marks(name, is_async=is_async) for name in ("preprocess", "predict", "explain", "postprocess")}


async def _called(sdk: Sdk, verb: str, hooks: Any, body: Any = None, headers: Any = None) -> Any:
    model = _hooked(sdk, **hooks)
    chosen = sdk("model").InferenceVerb[verb]
    return await model({"instances": []} if body is None else body, headers, verb=chosen)


_M = "model.Model"
for _verb in ("PREDICT", "EXPLAIN"):
    table(
        _M, *(f"{_M}.{hook}" for hook in (*_HOOKS, "__init__")), "model.InferenceVerb",
        rows={
            f"runs sync hooks in their order, {_verb}": False,
            f"runs async hooks in their order, {_verb}": True,
        },
        run=lambda sdk, is_async, verb=_verb: _called(sdk, verb, _all(is_async=is_async), headers={"a": "b"}),
    )  # fmt: skip


def _raising(self: Any, payload: Any, headers: Any = None) -> Any:
    raise KeyError("k")


def _sync_that_awaits(self: Any, payload: Any, headers: Any = None) -> Any:
    async def later() -> Any:
        return {"predictions": payload}

    return later()


cases(
    _M,
    raises_what_a_hook_raises=lambda sdk: _called(sdk, "PREDICT", {"predict": _raising}),
    awaits_what_a_sync_hook_returns=lambda sdk: _called(sdk, "PREDICT", {"predict": _sync_that_awaits}),
    gives_None_that_preprocess_returns_to_predict=lambda sdk: _called(
        sdk, "PREDICT", {"preprocess": lambda *_: None, "predict": lambda _, payload, headers=None: [payload]}
    ),
    gives_headers_of_the_answer_to_hooks_that_ask_for_them=lambda sdk: _with_response_headers(sdk),
)


async def _with_response_headers(sdk: Sdk) -> Any:
    def predict(self: Any, payload: Any, headers: Any, response_headers: Any) -> Any:
        response_headers["a"] = "1"
        return payload

    def postprocess(self: Any, result: Any, headers: Any, response_headers: Any) -> Any:
        response_headers["b"] = "2"
        return result

    kind = type("Asking", (sdk.Model,), {"predict": predict, "postprocess": postprocess})
    model = kind("m", return_response_headers=True)
    return await model({}), model.required_response_headers


table(
    f"{_M}.validate",
    rows={
        "passes a v1 document": ("v1", {"instances": [1]}),
        "refuses instances that are not a list": ("v1", {"instances": 1}),
        "passes a document of another kind": ("v1", {"anything": 1}),
        "passes what is not a document": ("v1", b"\x00"),
        "passes instances in an array": ("v1", {"instances": np.array([[1, 2]])}),
        "passes instances in a tuple": ("v1", {"instances": (1,)}),
        "refuses an array that is one number": ("v1", {"instances": np.array(1)}),
        "passes a v2 document": ("v2", {"inputs": []}),
        "refuses inputs that are not a list": ("v2", {"inputs": 1}),
        "passes anything without a predictor": (None, {"instances": 1}),
        "passes anything over gRPC": ("grpc-v2", {"inputs": 1, "instances": 1}),
    },
    run=lambda sdk, row: contextvars.copy_context().run(_validated, sdk, *row),
)


def _validated(sdk: Sdk, protocol: str | None, payload: Any) -> Any:
    sdk("context").set_predictor_config(protocol and sdk.PredictorConfig("h", protocol))
    return _hooked(sdk).validate(payload)


async def _alone(sdk: Sdk, hook: str, config: Any = None) -> Any:
    sdk("context").set_predictor_config(config and sdk.PredictorConfig(*config))
    return await getattr(_hooked(sdk), hook)({"instances": []})


cases(
    f"{_M}.predict",
    without_a_predictor=lambda sdk: _alone(sdk, "predict"),
    without_a_predictors_host=lambda sdk: _alone(sdk, "predict", (None,)),
)
cases(f"{_M}.explain", without_anybody_to_ask=lambda sdk: _alone(sdk, "explain"))
for _hook in ("preprocess", "postprocess"):
    cases(f"{_M}.{_hook}", passes_everything_on_by_itself=lambda sdk, hook=_hook: _alone(sdk, hook))


_LIFE = ("load", "start", "start_engine", "stop", "stop_engine", "healthy")


def _life(sdk: Sdk, *names: str) -> Any:
    model = sdk.Model("m")
    found = [(model.name, model.ready, model.engine)]
    for name in names:
        result = getattr(model, name)()
        found.append([name, asyncio.run(result) if asyncio.iscoroutine(result) else result, model.ready])
    return found


cases(
    f"{_M}.load", f"{_M}.start", f"{_M}.start_engine", f"{_M}.stop", f"{_M}.stop_engine", f"{_M}.healthy",
    *(f"model.{base}.{one}" for base in ("BaseKServeModel", "InferenceModel") for one in _LIFE),
    change_whether_it_is_ready=lambda sdk: _life(
        sdk, "healthy", "load", "healthy", "stop", "start", "stop_engine", "start_engine"),
)  # fmt: skip
cases(
    f"{_M}.get_input_types", f"{_M}.get_output_types", "model.InferenceModel.get_input_types",
    "model.InferenceModel.get_output_types",
    are_empty_by_themselves=lambda sdk: [sdk.Model("m").get_input_types(), sdk.Model("m").get_output_types()],
)  # fmt: skip
cases(
    f"{_M}.predictor_config",
    is_the_servers=lambda sdk: contextvars.copy_context().run(_config_of, sdk),
    is_None_without_a_server=lambda sdk: contextvars.Context().run(lambda: sdk.Model("m").predictor_config),
)


def _config_of(sdk: Sdk) -> Any:
    config = sdk.PredictorConfig("h")
    sdk("context").set_predictor_config(config)
    return sdk.Model("m").predictor_config is config


for _kind in ("BaseKServeModel", "InferenceModel"):
    cases(
        f"model.{_kind}",
        cannot_be_made_by_itself=lambda sdk, kind=_kind: getattr(sdk("model"), kind)("m"),
        is_a_base_of_Model=lambda sdk, kind=_kind: issubclass(sdk.Model, getattr(sdk("model"), kind)),
    )

# --- ModelServer without a port

_S = "model_server.ModelServer"
_SETTINGS = ("http_port", "grpc_port", "workers", "max_threads", "max_asyncio_workers", "enable_grpc", "event_loop",
             "timeout_keep_alive", "enable_latency_logging", "ssl_certfile", "ssl_keyfile", "grace_period",
             "enable_docs_url", "access_log_format")  # fmt: skip


def _server(sdk: Sdk, **settings: Any) -> Any:
    return contextvars.copy_context().run(lambda: sdk.ModelServer(**settings))


def _settings(sdk: Sdk, **given: Any) -> Any:
    server = _server(sdk, **given)
    return {name: getattr(server, name) for name in _SETTINGS}


def _registered(sdk: Sdk, *names: str | None, model: str = "m") -> Any:
    server = _server(sdk)
    one = sdk.Model(model)
    for name in names:
        server.register_model(one, name)
    return list(server.registered_models.get_models())


cases(
    _S,
    keeps_what_it_is_given=lambda sdk: _settings(
        sdk, http_port=1, grpc_port=2, workers=3, max_threads=5, max_asyncio_workers=6, enable_grpc=False,
        event_loop="asyncio", timeout_keep_alive=7, enable_latency_logging=False, grace_period=8, enable_docs_url=True,
        access_log_format="a"),
    has_defaults=lambda sdk: _settings(
        sdk, max_asyncio_workers=1, timeout_keep_alive=9, enable_latency_logging=False),
    serves_HTTPS_on_another_port=lambda sdk: _settings(
        sdk, ssl_certfile="c", ssl_keyfile="k", max_asyncio_workers=1)["http_port"],
    leaves_a_port_that_is_given_for_HTTPS=lambda sdk: _settings(
        sdk, http_port=9, ssl_certfile="c", ssl_keyfile="k", max_asyncio_workers=1)["http_port"],
    keeps_a_repository_that_is_empty=lambda sdk: _own_repository(sdk),
    sets_the_predictor_of_its_models=lambda sdk: contextvars.copy_context().run(_server_sets, sdk),
)  # fmt: skip


def _own_repository(sdk: Sdk) -> bool:
    """Its length is none, so it is false."""
    kind = type("Sized", (sdk.ModelRepository,), {"__len__": lambda self: len(self.models)})
    repository = kind()
    return _server(sdk, registered_models=repository).registered_models is repository


def _server_sets(sdk: Sdk) -> Any:
    config = sdk.PredictorConfig("h")
    sdk.ModelServer(predictor_config=config)
    return sdk.Model("m").predictor_config is config


cases(
    f"{_S}.register_model",
    by_its_own_name=lambda sdk: _registered(sdk, None),
    by_another_name=lambda sdk: _registered(sdk, None, "alias"),
    refuses_a_model_without_a_name=lambda sdk: _registered(sdk, None, model=""),
)


def _start(sdk: Sdk, models: Any) -> Any:
    return contextvars.copy_context().run(lambda: sdk.ModelServer(enable_grpc=False).start(models))


def _not_loading(sdk: Sdk, load: Any, name: str = "m") -> Any:
    return type("NotLoading", (sdk.Model,), {"load": load})(name)


cases(
    f"{_S}.start",
    refuses_what_is_no_list=lambda sdk: _start(sdk, sdk.Model("m")),
    refuses_what_is_no_model=lambda sdk: _start(sdk, [object()]),
    refuses_models_that_are_not_ready=lambda sdk: _start(sdk, [_not_loading(sdk, lambda _: False)]),
    passes_on_what_a_models_start_raises=lambda sdk: _start(sdk, [_start_raises(sdk)]),
)


def _start_raises(sdk: Sdk) -> Any:
    def start(self: Any) -> None:
        raise LookupError("no")

    model = type("Raising", (sdk.Model,), {"start": start})("m")
    model.ready = True
    return model


def _handled(sdk: Sdk) -> Any:
    """What becomes of an error in the event loop that is nobody's request."""
    seen: list[Any] = []

    class Loop:
        def default_exception_handler(self, context: Any) -> None:
            seen.append(context["message"])

    _server(sdk).default_exception_handler(Loop(), {"message": "lost"})
    return seen


cases(f"{_S}.default_exception_handler", gives_it_to_the_loops_own=_handled)
