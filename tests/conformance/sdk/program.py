"""The same models on either SDK: `python -m tests.conformance.sdk.program PACKAGE PORT GRPC_PORT PREDICTOR EVENTS`.

What the models are told beside requests is written to the file EVENTS.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KINDS: tuple[Callable[[str], Any], ...] = (str, int, int, str, Path)
PACKAGE, HTTP_PORT, GRPC_PORT, PREDICTOR, EVENTS = (read(one) for read, one in zip(KINDS, sys.argv[1:], strict=True))
sys.argv[1:] = ["--enable_model_api=true"]
sdk = importlib.import_module(PACKAGE)
errors, model_module = (importlib.import_module(f"{PACKAGE}.{name}") for name in ("errors", "model"))


def note(event: str) -> None:
    with EVENTS.open("a") as file:
        file.write(f"{event}\n")


class Ready(sdk.Model):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True

    def stop(self) -> None:
        note(f"stop {self.name}")
        super().stop()


class Echo(Ready):
    """What it is given, as a client can see it."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        if isinstance(payload, sdk.InferRequest):
            outputs = []
            for one in payload.inputs:
                output = sdk.InferOutput(one.name, one.shape, one.datatype)
                output.set_data_from_numpy(one.as_numpy(), binary_data=False)
                outputs.append(output)
            return sdk.InferResponse(payload.id or "made", self.name, outputs,
                                     use_binary_outputs=payload.use_binary_outputs,
                                     requested_outputs=payload.request_outputs)  # fmt: skip
        text = payload.hex() if isinstance(payload, bytes) else payload
        return {"predictions": [type(payload).__name__, text]}

    def explain(self, payload: Any, headers: Any = None) -> Any:
        return {"explanations": payload["instances"]}


class AsyncEcho(Echo):
    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        return payload

    async def predict(self, payload: Any, headers: Any = None) -> Any:
        return super().predict(payload, headers)

    async def postprocess(self, result: Any, headers: Any = None) -> Any:
        return result


class HTTPException(Exception):
    """As of a client of another service."""

    status_code = 404


ERRORS = {
    "InvalidInput": lambda: errors.InvalidInput("no"),
    "InferenceError": lambda: errors.InferenceError("no"),
    "ModelNotFound": lambda: errors.ModelNotFound("x"),
    "ModelNotReady": lambda: errors.ModelNotReady("x"),
    "ServerNotReady": lambda: errors.ServerNotReady(),
    "ServerNotLive": lambda: errors.ServerNotLive(),
    "UnsupportedProtocol": lambda: errors.UnsupportedProtocol("v9"),
    "NotImplementedError": lambda: NotImplementedError("no"),
    "ValueError": lambda: ValueError("no"),
    "KeyError": lambda: KeyError("no"),
    "ModelMissingError": lambda: errors.ModelMissingError("/mnt"),
    "HTTPException": lambda: HTTPException("no"),
}


class RaisingTensors(Ready):
    def predict(self, payload: Any, headers: Any = None) -> Any:
        name = payload.inputs[0].data[0]
        raise ERRORS[name.decode() if isinstance(name, bytes) else name]()


class Raising(Ready):
    def preprocess(self, payload: Any, headers: Any = None) -> Any:
        raise ERRORS[payload["instances"][0]]()


async def pieces() -> Any:
    for piece in (b"a", b"b"):
        yield piece


def generated() -> Any:
    yield b"a"


RESULTS = {
    "None": lambda: None,
    "False": lambda: False,
    "a number": lambda: 7,
    "text": lambda: "text",
    "bytes": lambda: b"\x00bytes",
    "a list": lambda: [1, "a", None],
    "an empty dict": dict,
    "NaN": lambda: {"predictions": [float("nan")]},
    "an array": lambda: {"predictions": np.array([[1, 2]])},
    "a number of numpy": lambda: {"predictions": [np.float32(0.5)]},
    "a date": lambda: {"predictions": [datetime.datetime(2024, 2, 3, 4, 5, 6)]},
    "a tuple": lambda: {"predictions": (1, 2)},
    "a set": lambda: {"predictions": {1}},
    "keys that are numbers": lambda: {1: 2},
    "an InferResponse": lambda: sdk.InferResponse("7", "m", [sdk.InferOutput("y", [1], "INT64", [1])]),
    "an async generator": pieces,
    "a generator": generated,
    "an object": object,
}


class Returning(Ready):
    """From its last hook."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        return payload

    def postprocess(self, result: Any, headers: Any = None) -> Any:
        return RESULTS[result["instances"][0]]()


OUTPUTS = {
    "dates": lambda: output("BYTES", [1], np.array(["2024-02-03T04:05:06"], "datetime64[s]")),
    "dates of pandas": lambda: output("BYTES", [1], np.array(["2024-02-03T04:05:06"], "datetime64[ns]")),
    "dates as objects": lambda: output("BYTES", [1], np.array([datetime.datetime(2024, 2, 3)], object)),
    "dates in a list": lambda: sdk.InferOutput("y", [1], "BYTES", [datetime.datetime(2024, 2, 3, 4, 5, 6)]),
    "text": lambda: sdk.InferOutput("y", [1], "BYTES", ["ä"]),
    "FP16 in a list": lambda: sdk.InferOutput("y", [1], "FP16", [0.5]),
    "numbers in rows": lambda: sdk.InferOutput("y", [2, 1], "INT64", [[1], [2]]),
    "NaN": lambda: sdk.InferOutput("y", [1], "FP32", [float("nan")]),
    "a fraction of FP32": lambda: sdk.InferOutput("y", [1], "FP32", [0.1]),
}


def output(datatype: str, shape: Any, array: Any) -> Any:
    made = sdk.InferOutput("y", shape, datatype)
    made.set_data_from_numpy(array, binary_data=False)
    return made


class Tensors(Ready):
    """The output that its input names; or no response at all."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        asked = payload.inputs[0].data[0]
        asked = asked.decode() if isinstance(asked, bytes) else asked
        if asked == "None":
            return None
        if asked == "no id":
            return sdk.InferResponse(None, self.name, [OUTPUTS["text"]()])
        if asked == "a dict":
            return {"id": "7", "model_name": "m", "outputs": [
                {"name": "y", "shape": [1], "datatype": "INT64", "data": [1]}]}  # fmt: skip
        return sdk.InferResponse("7", self.name, [OUTPUTS[asked]()])


class OwnCall(Ready):
    async def __call__(self, body: Any, headers: Any = None, verb: Any = None) -> Any:
        return {"verb": getattr(verb, "name", None)}, {"x-own": "1"}


class SyncCall(Ready):
    """As kserve.ray's: what it returns is awaited."""

    def __call__(self, body: Any, headers: Any = None, verb: Any = None) -> Any:
        async def later() -> Any:
            return {"called": True}, {}

        return later()


class NamedCall(Ready):
    async def __call__(self, body: Any, verb: Any = None, *, headers: Any = None) -> Any:
        return {"body": body, "own": headers["x-own"]}, {}


class Bare(model_module.InferenceModel):  # type: ignore[misc, name-defined]
    """No Model, but one that can be called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True

    async def __call__(self, body: Any, headers: Any = None, verb: Any = None) -> Any:
        return {"bare": True}, {}


class WithHeaders(Ready):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.required_response_headers = True

    def predict(self, payload: Any, headers: Any, response_headers: Any) -> Any:
        response_headers["x-own"] = headers["x-own"]
        return payload

    def postprocess(self, result: Any, headers: Any, response_headers: Any) -> Any:
        response_headers["x-more"] = "2"
        return result


class Doubling(Ready):
    def preprocess(self, payload: Any, headers: Any = None) -> Any:
        return {"instances": [2 * one for one in payload["instances"]]}


class Naming(Ready):
    async def postprocess(self, result: Any, headers: Any = None) -> Any:
        return {"predictions": [str(one) for one in result["predictions"]]}


class Streaming(Ready):
    async def predict(self, payload: Any, headers: Any = None) -> Any:
        for one in payload["instances"]:
            yield str(one)

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        yield "because"


class AskingFor(Ready):
    """The headers of the predictor's answer."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.required_response_headers = True

    def postprocess(self, result: Any, headers: Any, response_headers: Any) -> Any:
        return {"theirs": response_headers["x-theirs"]}


def answering(name: str, **methods: Any) -> Any:
    """A model with these methods."""
    return type(name.title(), (Echo,), methods)(name)


async def later(value: Any) -> Any:
    return value


def raising(self: Any) -> Any:
    raise LookupError("sick")


class Repository(sdk.ModelRepository):
    """Loads by what the model's name says."""

    def of(self, name: str) -> Any:
        note(f"load {name}")
        if "raises" in name:
            raise LookupError("no such folder")
        if "nothing" not in name:
            self.update(Echo(name))
        if "unready" in name:
            self.models[name].ready = False
        return {"true": True, "false": False, "none": None}[name.rpartition("-")[2]]

    def load(self, name: str) -> Any:
        return self.of(name)

    async def load_later(self, name: str) -> Any:
        return self.of(name)

    def load_as_awaitable(self, name: str) -> Any:
        return self.load_later(name)

    def unload_at_once(self, name: str) -> Any:
        return super().unload(name)

    async def unload_later(self, name: str) -> Any:
        return super().unload(name)

    def unload_raises(self, name: str) -> Any:
        raise LookupError("busy")


class Control(Ready):
    """Says how the repository loads and unloads from now on, and adds models."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        what, how = payload["instances"]
        if what == "add":
            repository.update(Echo(how))
        else:
            setattr(repository, what, getattr(repository, how))
        return {}


def described(name: str, found: Any) -> Any:
    return answering(name, get_input_types=lambda self: found(), get_output_types=lambda self: found())


async def typed_later(self: Any) -> Any:
    return TYPES


TYPES = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
repository = Repository()
MODELS = [
    Echo("echo"), AsyncEcho("async"), Raising("raising"), RaisingTensors("raising-tensors"), Returning("returning"),
    Tensors("tensors"),
    OwnCall("own-call"), SyncCall("sync-call"), NamedCall("named-call"), Bare("bare"), WithHeaders("with-headers"),
    *(Ready(name) for name in ("alone", "refused", "missing", "busy", "broken", "garbage", "redirected", "empty")),
    Doubling("doubling"), Naming("naming"), Streaming("streaming"), AskingFor("asking"), Control("control"),
    answering("healthy", healthy=lambda self: later(True)), answering("sick", healthy=lambda self: later(False)),
    answering("healthy-none", healthy=lambda self: later(None)),
    answering("healthy-raises", healthy=raising), answering("healthy-sync", healthy=lambda self: True),
    answering("sick-sync", healthy=lambda self: False),
    described("typed", lambda: TYPES), described("typed-later", lambda: later(TYPES)),
    answering("typed-async", get_input_types=typed_later, get_output_types=typed_later),
    described("typed-none", lambda: None), described("typed-raises", lambda: raising(None)),
    answering("preprocess-none", preprocess=lambda self, payload, headers=None: None),
    answering("validate-async", validate=lambda self, payload: later(payload)),
]  # fmt: skip


async def start_engine(self: Any) -> None:
    note("start_engine")


async def stop_later(self: Any) -> None:
    note(f"stop {self.name}")


async def load_later(self: Any) -> Any:
    note(f"load {self.name}")
    self.ready = True


async def start_later(self: Any) -> None:
    note(f"start {self.name}")


def unready_model(name: str, **methods: Any) -> Any:
    model = answering(name, **methods)
    model.ready = False
    return model


def handle(loop: Any, context: Any) -> None:
    note(f"handled {context['message']}")


async def lose(self: Any, payload: Any, headers: Any = None) -> Any:
    asyncio.get_running_loop().call_exception_handler({"message": "lost"})
    return {}


def main() -> None:
    unready = Echo("unready")
    unready.ready = False
    repository.update(unready)
    engine = answering("engine", start_engine=start_engine, stop_engine=lambda self: note("stop_engine"))
    engine.engine = True
    more = [
        answering("starting", start=lambda self: note("start starting")),
        answering("starting-later", start=start_later),
        answering("stopping", stop=stop_later),
        unready_model("loaded", load=lambda self: note("load loaded") or True),
        unready_model("loaded-later", load=load_later),
        unready_model("not-loaded", load=lambda self: False),
        answering("losing", preprocess=lose),
    ]
    config = sdk.PredictorConfig(PREDICTOR)
    server = sdk.ModelServer(
        http_port=HTTP_PORT, grpc_port=GRPC_PORT, registered_models=repository, predictor_config=config
    )
    server.register_exception_handler(handle)
    server.start([*MODELS, engine, *more])


if __name__ == "__main__":
    main()
