"""What a handler sees of a batch of requests, and how its results become their answers.

The envelopes have TorchServe's names and give handlers what TorchServe's give them. Where TorchServe's serve the first
request of a batch only, these serve all: the pieces of every request (instances, or input tensors) go to the handler in
one list, and its results are cut back.

Every envelope takes every form of request: a v2 request to a handler of instances is turned into instances, and so on.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import orjson

from transformer_sdk.handler import values
from transformer_sdk.handler.context import describe_requests
from transformer_sdk.handler.frames import Answer, Batch, Form, Request
from transformer_sdk.handler.values import HandlerOutputError

Handle = Callable[[list[Any], Any], Any]

_JSON = "application/json"


class Envelope(Protocol):
    """Serves a batch by one call of the handler."""

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """One answer for each request, in order; raises what the handler raises, and HandlerOutputError."""
        ...


def envelope_named(name: str) -> Envelope:
    """The envelope of a setting or a manifest; "none" is the absence of one. Raises ValueError."""
    try:
        return _ENVELOPES[name]()
    except KeyError:
        known = ", ".join(sorted(_ENVELOPES))
        raise ValueError(f"There is no service envelope {name!r}; there are {known}.") from None


class Plain:
    """No envelope: a request is the dictionary of its parts, a result is the body of its answer."""

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        if batch.form == "v2":
            return self._serve_tensors(batch, handle, context)
        rows = [{part.name: values.decode(part) for part in request.parts} for request in batch.requests]
        results = self._call(batch, rows, handle, context)
        return values.answers([values.encode(result) for result in results], context)

    def _serve_tensors(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """The handler gets the JSON of the request, and returns that of the answer or plain predictions."""
        from transformer_sdk.handler import tensors

        rows: list[dict[str, Any]] = [{"body": tensors.document(request)} for request in batch.requests]
        results = self._call(batch, rows, handle, context)
        return values.answers([(tensors.encode_result(result), tensors.CONTENT_TYPE) for result in results], context)

    def _call(self, batch: Batch, rows: list[dict[str, Any]], handle: Handle, context: Any) -> list[Any]:
        describe_requests(batch, context, merged=False)
        return values.results_of(handle(self.unwrap(rows), context), len(rows))

    def unwrap(self, rows: list[dict[str, Any]]) -> list[Any]:
        """What the handler gets of the rows."""
        return list(rows)


class Body(Plain):
    """`body`: a request is its body."""

    def unwrap(self, rows: list[dict[str, Any]]) -> list[Any]:
        return [_body(row) for row in rows]


class Instances:
    """`kserve`: the handler gets instances and returns one prediction for each."""

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        match batch.form:
            case "v1" | "explain":
                key = "explanations" if batch.form == "explain" else "predictions"
                return self._serve(batch, handle, context, lambda results: values.encode_json({key: results}))
            case "v2":
                return self._serve_tensors(batch, handle, context)
            case _:
                return self._serve_raw(batch, handle, context)

    def instances(self, request: Request) -> list[Any] | None:
        """The instances in a request's body; None if that is something else."""
        body = next((part.value for part in request.parts if part.name in ("data", "body")), b"")
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(document, dict):
            return None
        instances = document.get("instances", document.get("inputs"))
        return self.prepare(instances) if isinstance(instances, list) else None

    def prepare(self, instances: list[Any]) -> list[Any]:
        """What the handler gets of the instances."""
        return instances

    def encode_raw(self, results: list[Any], form: Form) -> bytes:
        """The answer to instances in TorchServe's own API, to the letter as TorchServe writes it."""
        return values.encode_indented({"explanations" if form == "raw-explain" else "predictions": results})

    def _serve(self, batch: Batch, handle: Handle, context: Any, encode: Callable[[list[Any]], bytes]) -> list[Answer]:
        rows = [self.instances(request) for request in batch.requests]
        served = [row for row in rows if row is not None]
        readable = Batch(
            batch.form, [request for request, row in zip(batch.requests, rows, strict=True) if row is not None]
        )
        cut = iter(call_merged(readable, served, handle, context)) if served else iter(())
        bodies = [(encode(results), _JSON) for results in cut]
        found = iter(values.answers(bodies, context))
        return [_UNREADABLE if row is None else next(found) for row in rows]

    def _serve_tensors(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        from transformer_sdk.handler import tensors

        rows = [self.prepare(tensors.instances(request.parts)) for request in batch.requests]
        cut = call_merged(batch, rows, handle, context)
        return values.answers([(tensors.encode_predictions(results), tensors.CONTENT_TYPE) for results in cut], context)

    def _serve_raw(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """As TorchServe for {"instances": …}; anything else is the handler's to understand."""
        wrapped = [self.instances(request) is not None for request in batch.requests]
        if all(wrapped):
            return self._serve(batch, handle, context, lambda results: self.encode_raw(results, batch.form))
        if any(wrapped):
            raise HandlerOutputError("requests with and without instances came together")  # retried one by one
        return Plain().serve(batch, handle, context)


class Json(Instances):
    """`json`: like `kserve`, with {"b64": …} in instances decoded."""

    def prepare(self, instances: list[Any]) -> list[Any]:
        return [_decode_base64(instance) for instance in instances]

    def encode_raw(self, results: list[Any], form: Form) -> bytes:  # noqa: ARG002 - TorchServe makes no difference
        return values.encode_indented({"predictions": results}, indent=None)


class OpenInference:
    """`kservev2`: the handler gets input tensors as {"name", "shape", "datatype", "data"}, returns one output each."""

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        from transformer_sdk.handler import tensors

        match batch.form:
            case "v2":
                inputs = [tensors.inputs(request.parts) for request in batch.requests]
            case "v1" | "explain":
                inputs = [tensors.inputs_of_instances(_instances_of(request)) for request in batch.requests]
            case _:
                documents = [tensors.inputs_of_document(request.parts) for request in batch.requests]
                if any(document is None for document in documents):
                    return Plain().serve(batch, handle, context)
                inputs = [document for document in documents if document is not None]
        names = [[one["name"] for one in some] for some in inputs]
        cut = call_merged(batch, inputs, handle, context)
        key = "explanations" if batch.form == "explain" else "predictions"
        bodies: list[tuple[bytes, str]] = []
        for results, named, request in zip(cut, names, batch.requests, strict=True):
            if batch.form == "v2":
                bodies.append((tensors.encode_outputs(results, named), tensors.CONTENT_TYPE))
            elif batch.form in ("v1", "explain"):
                bodies.append((values.encode_json({key: tensors.rows_of_result(results)}), _JSON))
            else:
                bodies.append((tensors.encode_document(results, named, request, context), _JSON))
        return values.answers(bodies, context)


def call_merged(batch: Batch, rows: Sequence[Sequence[Any]], handle: Handle, context: Any) -> list[list[Any]]:
    """One call of the handler with the pieces of all requests; its results, cut back to each request's own."""
    describe_requests(batch, context, merged=True)
    pieces = [piece for row in rows for piece in row]
    results: Iterator[Any] = iter(values.results_of(handle(pieces, context), len(pieces)))
    return [list(islice(results, len(row))) for row in rows]


_ENVELOPES: dict[str, Callable[[], Envelope]] = {
    "none": Plain,
    "body": Body,
    "kserve": Instances,
    "json": Json,
    "kservev2": OpenInference,
}

# The server has checked the JSON, but not every number in it.
_UNREADABLE = Answer(
    orjson.dumps({"error": 'The request holds a number that is out of range, or is not {"instances": [...]}.'}),
    400,
    _JSON,
)


def _body(row: dict[str, Any]) -> Any:
    return row.get("data") or row.get("body")


def _instances_of(request: Request) -> list[Any]:
    return Instances().instances(request) or []


def _decode_base64(instance: Any) -> Any:
    if not isinstance(instance, dict):
        return instance
    if list(instance) == ["b64"]:
        return b64decode(instance["b64"])
    return {
        name: b64decode(value["b64"]) if isinstance(value, dict) and list(value) == ["b64"] else value
        for name, value in instance.items()
    }
