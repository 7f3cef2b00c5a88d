"""What a server of either SDK is asked, and its answers, as far as they can be compared."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.conformance.sdk.values import plain

_KEPT = re.compile(r"content-type|ce-.*|x-own|x-more|inference-header-content-length")
_ERROR = 400
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")


@dataclass(frozen=True)
class Asked:
    """One request; `name` says what it is about."""

    name: str
    path: str
    body: bytes = b""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, port: int) -> Any:
        """The answer of the server on this port. Of an error its words are the server's own affair."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(self.method, self.path, self.body or None, dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status >= _ERROR:
            return {"status": answer.status}
        headers = {name.lower(): value for name, value in answer.getheaders() if _KEPT.fullmatch(name.lower())}
        length = int(headers.get("inference-header-content-length", len(body)))
        document = [_document(body[:length]), body[length:]]
        return {"status": answer.status, "headers": plain(_told(headers)), "body": plain(_told(document))}


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _told(value: Any) -> Any:
    """Times are what they are, and a member that is null is one that is left out."""
    if isinstance(value, dict):
        told = {name: one for name, one in value.items() if one is not None}
        return {name: "<time>" if name in ("time", "ce-time") else _told(one) for name, one in told.items()}
    return [_told(one) for one in value] if isinstance(value, list) else value


def _v1(model: str, *instances: Any, verb: str = "predict", **headers: str) -> dict[str, Any]:
    body = orjson.dumps({"instances": list(instances)})
    return {
        "path": f"/v1/models/{model}:{verb}",
        "body": body,
        "headers": {"content-type": "application/json", **headers},
    }


def _v2(model: str, document: Any, raw: bytes = b"", **headers: str) -> dict[str, Any]:
    text = document if isinstance(document, bytes) else orjson.dumps(document)
    binary = {"inference-header-content-length": str(len(text)), "content-type": "application/octet-stream"}
    more = binary if raw else {"content-type": "application/json"}
    return {"path": f"/v2/models/{model}/infer", "body": text + raw, "headers": {**more, **headers}}


def _get(path: str) -> dict[str, Any]:
    return {"path": path, "method": "GET"}


_FORWARDED = {"x-request-id": "7", "x-b3-traceid": "9", "authorization": "Bearer x", "cookie": "a=b", "x-own": "1"}
_INT = {"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}
_CE = {"ce-specversion": "1.0", "ce-id": "42", "ce-source": "/camera", "ce-type": "image",
       "ce-time": "2024-02-03T04:05:06Z"}  # fmt: skip
_EVENT = {"specversion": "1.0", "id": "42", "source": "/camera", "type": "image", "time": "2024-02-03T04:05:06Z",
          "data": {"instances": [1]}}  # fmt: skip
_JSON = b'{"instances": [1]}'


def _event(body: bytes, model: str = "echo", verb: str = "predict", **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"path": f"/v1/models/{model}:{verb}", "body": body, "headers": {**_CE, **named}}


def _structured(document: Any, content_type: str = "application/cloudevents+json") -> dict[str, Any]:
    return {
        "path": "/v1/models/echo:predict",
        "body": orjson.dumps(document),
        "headers": {"content-type": content_type},
    }


def _text(name: str) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": [name]}], "id": "7"}


_ALL: dict[str, dict[str, dict[str, Any]]] = {
    "paths": {
        "/": _get("/"),
        "a list of models, v1": _get("/v1/models"),
        "a model that is ready, v1": _get("/v1/models/echo"),
        "a missing model, v1": _get("/v1/models/nobody"),
        "the server, v2": _get("/v2"),
        "whether the server lives": _get("/v2/health/live"),
        "whether the server is ready, with a model that is not": _get("/v2/health/ready"),
        "a list of models, v2": _get("/v2/models"),
        "a model, v2": _get("/v2/models/echo"),
        "a missing model, v2": _get("/v2/models/nobody"),
        "a model in a version, v2": _get("/v2/models/echo/versions/1"),
        "whether a model is ready, v2": _get("/v2/models/echo/ready"),
        "whether a missing model is ready, v2": _get("/v2/models/nobody/ready"),
        "whether a model in a version is ready, v2": _get("/v2/models/echo/versions/1/ready"),
        "a path that is none": _get("/v3"),
        "a method that is none": {"path": "/v1/models/echo:predict", "method": "DELETE"},
    },
    "hooks": {
        "sync hooks": _v1("echo", 1, 2),
        "async hooks": _v1("async", 1, 2),
        "an explanation": _v1("echo", 1, verb="explain"),
        "a `__call__` of its own": _v1("own-call", 1),
        "an explanation by a `__call__` of its own": _v1("own-call", 1, verb="explain"),
        "a sync `__call__` that returns an awaitable": _v1("sync-call", 1),
        "a `__call__` with its parameters in another order": _v1("named-call", 1, **{"x-own": "7"}),
        "an InferenceModel that is not a Model": _v1("bare", 1),
        "a `predict` that yields": _v1("streaming", 1, "a"),
        "an `explain` that yields": _v1("streaming", 1, verb="explain"),
        "response_headers": _v1("with-headers", 1, **{"x-own": "7"}),
        "`preprocess` that returns None, with a `predict` of its own": _v1("preprocess-none", 1),
        "an async `validate`": _v1("validate-async", 1),
        "instances that are not a list, without a predictor": {
            "path": "/v1/models/echo:predict", "body": b'{"instances": 1}'},
    },
    "a transformer": {
        "without hooks": _v1("alone", 1, **_FORWARDED),
        "with `preprocess`": _v1("doubling", 1, **_FORWARDED),
        "with `postprocess`": _v1("naming", 1, **_FORWARDED),
        "that asks for the predictor's headers": _v1("asking", 1, **_FORWARDED),
        "whose client sends a picture": {"path": "/v1/models/alone:predict", "body": b"\x89PNG",
                                         "headers": {"content-type": "image/png", **_FORWARDED}},
        "whose client sends instances that are not a list": {
            "path": "/v1/models/alone:predict", "body": b'{"instances": 1}', "headers": _FORWARDED},
        "called for an explanation, without an explainer": _v1("alone", 1, verb="explain", **_FORWARDED),
        **{f"whose predictor {what}": _v1(name, 1, **_FORWARDED) for what, name in {
            "returns 400": "refused", "returns 404": "missing", "returns 503": "busy", "returns 500": "broken",
            "returns invalid JSON": "garbage", "redirects": "redirected",
            "sends an empty document": "empty",
        }.items()},
    },
    "`healthy`": {
        f"{what}: {asked}": {"path": path.format(model), "method": method, "body": body}
        for what, model in {
            "async, True": "healthy", "async, False": "sick", "async, None": "healthy-none",
            "sync, True": "healthy-sync", "sync, False": "sick-sync", "raises": "healthy-raises",
            "`ready` is False": "unready",
        }.items()
        for asked, path, method, body in (
            ("v1", "/v1/models/{}", "GET", b""), ("v2", "/v2/models/{}/ready", "GET", b""),
            ("predict", "/v1/models/{}:predict", "POST", _JSON),
        )
    },
    "`get_input_types`": {
        what: _get(f"/v2/models/{model}") for what, model in {
            "a list": "typed", "async": "typed-async", "sync, returns an awaitable": "typed-later",
            "None": "typed-none", "raises": "typed-raises"}.items()
    },
    "what a hook raises": {
        name: _v1("raising", name) for name in (
            "InvalidInput", "InferenceError", "ModelNotFound", "ModelNotReady", "ServerNotReady", "ServerNotLive",
            "UnsupportedProtocol", "NotImplementedError", "ValueError", "KeyError", "ModelMissingError",
            "HTTPException")
    },
    "what the last hook returns, v1": {
        name: _v1("returning", name) for name in (
            "None", "False", "a number", "text", "bytes", "a list", "an empty dict", "NaN", "an array",
            "a number of numpy", "a date", "a tuple", "a set", "keys that are numbers", "an InferResponse",
            "an async generator", "a generator", "an object")
    },
    "what the last hook returns, v2": {
        name: _v2("tensors", _text(name)) for name in (
            "None", "no id", "a dict", "dates", "dates of pandas", "dates as objects", "dates in a list", "text",
            "FP16 in a list", "numbers in rows", "NaN", "a fraction of FP32")
    },
    "bodies, v1": {
        "no content type": {"path": "/v1/models/echo:predict", "body": _JSON},
        "JSON with curl's default content type": {"path": "/v1/models/echo:predict", "body": _JSON,
                                 "headers": {"content-type": "application/x-www-form-urlencoded"}},
        "JSON that is broken": {"path": "/v1/models/echo:predict", "body": b"{"},
        "an empty body": {"path": "/v1/models/echo:predict"},
        "a picture": {"path": "/v1/models/echo:predict", "body": b"\x89PNG", "headers": {"content-type": "image/png"}},
        "text": {"path": "/v1/models/echo:predict", "body": b"text", "headers": {"content-type": "text/plain"}},
        "octets": {"path": "/v1/models/echo:predict", "body": _JSON,
                   "headers": {"content-type": "application/octet-stream"}},
        "JSON with a charset": {"path": "/v1/models/echo:predict", "body": _JSON,
                                "headers": {"content-type": "application/json; charset=utf-8"}},
        "a list": {"path": "/v1/models/echo:predict", "body": b"[1]"},
        "a missing model": _v1("nobody", 1),
        "an explanation of a missing model": _v1("nobody", 1, verb="explain"),
    },
    "bodies, v2": {
        "JSON": _v2("echo", {"id": "7", "inputs": [_INT]}),
        "parameters": _v2("echo", {"id": "7", "parameters": {"a": "b", "c": True, "d": 1, "e": 1.5}, "inputs": [
            {**_INT, "parameters": {"a": "b", "c": True, "d": 1, "e": 1.5}}]}),
        "a parameter that is a list": _v2("echo", {"id": "7", "parameters": {"a": [1]}, "inputs": [_INT]}),
        "no id": _v2("echo", {"inputs": [_INT]}),
        "raw tensors": _v2("echo", {"id": "7", "inputs": [
            {"name": "x", "shape": [1], "datatype": "INT64", "parameters": {"binary_data_size": 8}}]},
            b"\1" + b"\0" * 7),
        "raw outputs": _v2("echo", {"id": "7", "inputs": [_INT], "parameters": {"binary_data_output": True}}),
        "one output that is wanted": _v2("echo", {"id": "7", "inputs": [_INT, {**_INT, "name": "z"}],
                                                   "outputs": [{"name": "z"}]}),
        "a missing output": _v2("echo", {"id": "7", "inputs": [_INT], "outputs": [{"name": "q"}]}),
        "text": _v2("echo", {"id": "7", "inputs": [
            {"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a", "ä"]}]}),
        "rows": _v2("echo", {"id": "7", "inputs": [{**_INT, "shape": [2, 1], "data": [[1], [2]]}]}),
        "FP16 as JSON": _v2("echo", {"id": "7", "inputs": [
            {"name": "x", "shape": [1], "datatype": "FP16", "data": [0.5]}]}),
        "JSON that is broken": _v2("echo", b"{"),
        "no inputs": _v2("echo", {"id": "7"}),
        "an input without data": _v2("echo", {"inputs": [{"name": "x", "shape": [1], "datatype": "INT64"}]}),
        "an input without a shape": _v2("echo", {"inputs": [{"name": "x", "datatype": "INT64", "data": [1]}]}),
        "an unknown datatype": _v2("echo", {"inputs": [{**_INT, "datatype": "INT7"}]}),
        "data of another size than its shape": _v2("echo", {"inputs": [{**_INT, "shape": [3]}]}),
        "text as numbers": _v2("echo", {"inputs": [{**_INT, "data": ["a", "b"]}]}),
        "a missing model": _v2("nobody", {"inputs": [_INT]}),
        "a model that is not ready": _v2("unready", {"inputs": [_INT]}),
        "a model in a version": {**_v2("echo", {"inputs": [_INT]}), "path": "/v2/models/echo/versions/1/infer"},
        "a preprocess that raises": _v2("doubling", {"inputs": [_INT]}),
    },
    "CloudEvents": {
        "binary, JSON": _event(_JSON, content_type="application/json"),
        "binary, JSON without a content type": _event(_JSON),
        "binary, Avro": _event(b"Obj\x01\xff", content_type="application/avro"),
        "binary, octets": _event(b"\xff\x00", content_type="application/octet-stream"),
        "binary, text": _event(b"plain", content_type="text/plain"),
        "binary, Avro by `ce-content-type`": _event(
            b"Obj\x01\xff", content_type="application/json", ce_content_type="application/avro"),
        "binary, broken JSON by `ce-content-type`": _event(b"{", ce_content_type="application/json"),
        "binary, bytes that are not text by `ce-content-type`": _event(b"0\x80", ce_content_type="application/json"),
        "binary, JSON called Avro": _event(_JSON, content_type="application/avro"),
        "binary, broken JSON": _event(b"{", content_type="application/json"),
        "binary, broken JSON called an event": _event(b"{", content_type="application/cloudevents+json"),
        "binary, bytes declared as JSON that are not text": _event(b"\xff", content_type="application/json"),
        "binary, no bytes": _event(b"", content_type="application/json"),
        "binary, an explanation": _event(_JSON, verb="explain", content_type="application/json"),
        "binary, an attribute missing": {**_event(_JSON), "headers": {
            name: value for name, value in _CE.items() if name != "ce-source"}},
        "binary, another version": _event(_JSON, ce_specversion="0.2"),
        "binary, attributes of an extension": _event(_JSON, ce_partitionkey="9", content_type="application/json"),
        "structured": _structured(_EVENT),
        "structured, sent as JSON": _structured(_EVENT, "application/json"),
        "structured, without a time": _structured({name: one for name, one in _EVENT.items() if name != "time"}),
        "structured, an attribute missing": _structured({name: one for name, one in _EVENT.items() if name != "id"}),
        "structured, data in base64": _structured(
            {**{name: one for name, one in _EVENT.items() if name != "data"}, "data_base64": "AAA="}),
    },
    "a model given to `ModelServer.start`": {
        "ready, with a sync `start`": _v1("starting", 1),
        "ready, with an async `start`": _v1("starting-later", 1),
        "not ready, with a sync `load`": _v1("loaded", 1),
        "not ready, with an async `load`": _v1("loaded-later", 1),
        "not ready, whose `load` says no": _v1("not-loaded", 1),
        "that gives the event loop's handler an error": _v1("losing", 1),
    },
    "a repository whose `load`": {},
    "a repository whose `unload`": {},
}  # fmt: skip


def _load(name: str) -> dict[str, Any]:
    return {"path": f"/v2/repository/models/{name}/load"}


def _unload(name: str) -> dict[str, Any]:
    return {"path": f"/v2/repository/models/{name}/unload"}


_KINDS = {"sync": "load", "async": "load_later", "awaitable": "load_as_awaitable"}
_ENDS = {
    "registers the model and returns True": "{}-true", "registers it and returns None": "{}-none",
    "registers it and returns False": "{}-false", "raises": "{}-raises-none",
    "registers nothing and returns True": "{}-nothing-true", "registers nothing and returns False": "{}-nothing-false",
    "registers nothing and returns None": "{}-nothing-none",
    "registers a model that is not ready": "{}-unready-none",
}  # fmt: skip
for _kind, _method in _KINDS.items():
    _loading = _ALL["a repository whose `load`"]
    if _kind != "sync":
        _loading[f"is {_kind} from now on"] = _v1("control", "load", _method)
    for _end, _name in _ENDS.items():
        _model = _name.format(_kind)
        _loading[f"is {_kind}: {_end}"] = _load(_model)
        _loading[f"is {_kind}: {_end}; then the model is called"] = _v1(_model, 1)
_ALL["a repository whose `unload`"] = {
    "is KServe's: a model": _unload("sync-true"),
    "is KServe's: a model; then it is called": _v1("sync-true", 1),
    "is KServe's: a missing model": _unload("nobody"),
    "is KServe's: a model that is not ready": _unload("sync-unready-none"),
    "raises from now on": _v1("control", "unload", "unload_raises"),
    "raises": _unload("sync-none"),
    "raises; then the model is asked": _v1("sync-none", 1),
    "is async from now on": _v1("control", "unload", "unload_later"),
    "is async: a model": _unload("sync-none"),
    "is async: a model; then it is called": _v1("sync-none", 1),
    "is async: a missing model": _unload("nobody"),
    "is sync again": _v1("control", "unload", "unload_at_once"),
    "has a model added by a hook": _v1("control", "add", "late"),
    "has a model added by a hook; then it is called": _v1("late", 1),
    "has a model added by a hook; then it is ready": _get("/v1/models/late"),
}

REQUESTS = [Asked(f"{group}: {name}", **what) for group, named in _ALL.items() for name, what in named.items()]
