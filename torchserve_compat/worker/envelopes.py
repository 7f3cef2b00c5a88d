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
from typing import Any, Protocol, TypeVar

import orjson

from data_plane.errors import InvalidInput, ServingError
from torchserve_compat import frames, values
from torchserve_compat.frames import Answer, Batch, Form, Request
from torchserve_compat.values import HandlerOutputError
from torchserve_compat.worker.context import describe_requests

Handle = Callable[[list[Any], Any], Any]
_Pieces = TypeVar("_Pieces")  # what the handler gets of one request

_JSON = "application/json"


class Envelope(Protocol):
    """Serves a batch by one call of the handler."""

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """One answer for each request, in order; raises what the handler raises, and HandlerOutputError."""
        ...


def envelope_named(name: str, *, parses_json: bool = True) -> Envelope:
    """The envelope of a setting or a manifest; "none" is the absence of one. Raises ValueError."""
    try:
        return _ENVELOPES[name](parses_json=parses_json)
    except KeyError:
        known = ", ".join(sorted(_ENVELOPES))
        raise ValueError(f"There is no service envelope {name!r}; there are {known}.") from None


class Plain:
    """No envelope: a request is the dictionary of its parts, a result is the body of its answer."""

    def __init__(self, *, parses_json: bool) -> None:
        self._parses_json = parses_json

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        if batch.form == "v2":
            return self._serve_tensors(batch, handle, context)
        rows = [
            {part.name: values.decode(part, parses_json=self._parses_json) for part in request.parts}
            for request in batch.requests
        ]
        results = self._call(batch, rows, handle, context)
        return values.answers([values.encode(result) for result in results], context)

    def _serve_tensors(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """The handler gets the JSON of the request, and returns that of the answer or plain predictions."""
        from torchserve_compat import tensors

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

    def __init__(self, *, parses_json: bool) -> None:
        self._plain = Plain(parses_json=parses_json)

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        match batch.form:
            case "v1" | "explain":
                key = "explanations" if batch.form == "explain" else "predictions"
                return self._serve(batch, handle, context, lambda results: values.encode_json({key: results}))
            case "v2":
                return self._serve_tensors(batch, handle, context)
            case _:
                return self._serve_raw(batch, handle, context)

    def prepare(self, instances: list[Any]) -> list[Any]:
        """What the handler gets of the instances; raises InvalidInput."""
        return instances

    def encode_raw(self, results: list[Any], form: Form) -> bytes:
        """The answer to instances in TorchServe's own API, to the letter as TorchServe writes it."""
        return values.encode_indented({"explanations" if form == "raw-explain" else "predictions": results})

    def _serve(self, batch: Batch, handle: Handle, context: Any, encode: Callable[[list[Any]], bytes]) -> list[Answer]:
        def answer(readable: Batch, rows: list[list[Any]]) -> list[Answer]:
            cut = call_merged(readable, rows, handle, context)
            return values.answers([(encode(results), _JSON) for results in cut], context)

        read = values.loads if batch.form in ("raw", "raw-explain") else orjson.loads
        return serve_readable(batch, lambda request: self.prepare(_instances(request, read)), answer)

    def _serve_tensors(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        from torchserve_compat import tensors

        def answer(readable: Batch, rows: list[list[Any]]) -> list[Answer]:
            cut = call_merged(readable, rows, handle, context)
            bodies = [(tensors.encode_predictions(results), tensors.CONTENT_TYPE) for results in cut]
            return values.answers(bodies, context)

        return serve_readable(batch, lambda request: self.prepare(tensors.instances(request.parts)), answer)

    def _serve_raw(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        """As TorchServe for {"instances": …}; anything else is the handler's to understand."""
        wrapped = [_has_instances(request) for request in batch.requests]
        if all(wrapped):
            return self._serve(batch, handle, context, lambda results: self.encode_raw(results, batch.form))
        if any(wrapped):
            raise HandlerOutputError("requests with and without instances came together")  # retried one by one
        return self._plain.serve(batch, handle, context)


class Json(Instances):
    """`json`: like `kserve`, with {"b64": …} in instances decoded."""

    def prepare(self, instances: list[Any]) -> list[Any]:
        return [_decode_base64(instance, place) for place, instance in enumerate(instances)]

    def encode_raw(self, results: list[Any], form: Form) -> bytes:  # noqa: ARG002 - TorchServe makes no difference
        return values.encode_indented({"predictions": results}, indent=None)


class OpenInference:
    """`kservev2`: the handler gets input tensors as {"name", "shape", "datatype", "data"}.

    Its outputs have the inputs' names in their order. There may be fewer of them, as of ids and a mask come logits.
    """

    def __init__(self, *, parses_json: bool) -> None:
        self._plain = Plain(parses_json=parses_json)

    def serve(self, batch: Batch, handle: Handle, context: Any) -> list[Answer]:
        from torchserve_compat import tensors

        def answer(readable: Batch, inputs: list[list[dict[str, Any]]]) -> list[Answer]:
            # Of several requests nobody could tell whose output is missing: they are retried one by one.
            cut = call_merged(readable, inputs, handle, context, or_fewer=len(inputs) == 1)
            results = zip(readable.requests, inputs, cut, strict=True)
            return values.answers([self._encode(batch.form, *one, context) for one in results], context)

        match batch.form:
            case "v2":
                return answer(batch, [tensors.inputs(request) for request in batch.requests])
            case "v1" | "explain":
                return serve_readable(batch, lambda request: tensors.inputs_of_instances(_instances(request)), answer)
            case _:
                found = [tensors.of_document(request) for request in batch.requests]
                documents = [one for one in found if one is not None]
                if not documents:
                    return self._plain.serve(batch, handle, context)
                if len(documents) < len(found):
                    raise HandlerOutputError("requests with and without tensors came together")  # retried one by one
                requests, inputs = zip(*documents, strict=True)
                return answer(Batch(batch.form, list(requests)), list(inputs))

    def _encode(
        self, form: Form, request: Request, inputs: list[dict[str, Any]], results: list[Any], context: Any
    ) -> tuple[bytes, str]:
        """(body, content type) of the answer to one request."""
        from torchserve_compat import tensors

        names = [one["name"] for one in inputs]
        match form:
            case "v2":
                return tensors.encode_outputs(results, names), tensors.CONTENT_TYPE
            case "v1" | "explain":
                key = "explanations" if form == "explain" else "predictions"
                return values.encode_json({key: tensors.rows_of_result(results)}), _JSON
            case _:
                return tensors.encode_document(results, names, request, context), _JSON


def serve_readable(
    batch: Batch, read: Callable[[Request], _Pieces], serve: Callable[[Batch, list[_Pieces]], list[Answer]]
) -> list[Answer]:
    """`serve` with what `read` finds in each request; those that it raises a ServingError for are refused alone."""
    pieces = []
    refusals = {}
    for index, request in enumerate(batch.requests):
        try:
            pieces.append(read(request))
        except ServingError as error:
            refusals[index] = Answer(error.message.encode(), error.status, frames.REFUSAL)
    if not refusals:
        return serve(batch, pieces)
    readable = [request for index, request in enumerate(batch.requests) if index not in refusals]
    answers = iter(serve(Batch(batch.form, readable), pieces) if readable else [])
    return [refusals[index] if index in refusals else next(answers) for index in range(len(batch.requests))]


def call_merged(
    batch: Batch, rows: Sequence[Sequence[Any]], handle: Handle, context: Any, *, or_fewer: bool = False
) -> list[list[Any]]:
    """One call of the handler with the pieces of all requests; its results, cut back to each request's own.

    `or_fewer`: there may be fewer results than pieces.
    """
    describe_requests(batch, context, merged=True)
    pieces = [piece for row in rows for piece in row]
    results: Iterator[Any] = iter(values.results_of(handle(pieces, context), len(pieces), or_fewer=or_fewer))
    return [list(islice(results, len(row))) for row in rows]


_ENVELOPES: dict[str, Callable[..., Envelope]] = {
    "none": Plain,
    "body": Body,
    "kserve": Instances,
    "json": Json,
    "kservev2": OpenInference,
}


def _body(row: dict[str, Any]) -> Any:
    return row.get("data") or row.get("body")


def _instances(request: Request, read: Callable[[bytes], Any] = orjson.loads) -> list[Any]:
    """The instances in a request's body; raises InvalidInput, as the server has not looked deep into a v1 request."""
    try:
        document = read(_text(request))
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"The request body cannot be read: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    instances = document.get("instances", document.get("inputs")) if isinstance(document, dict) else None
    if not isinstance(instances, list):
        raise InvalidInput('The request is not {"instances": [...]}.')
    return instances


def _has_instances(request: Request) -> bool:
    """By no other name: to TorchServe {"inputs": …} is as any JSON, and there are handlers that want it so."""
    try:
        document = values.loads(_text(request))
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("instances"), list)


def _text(request: Request) -> bytes:
    return next((part.value for part in request.parts if part.name in ("data", "body")), b"")


def _decode_base64(instance: Any, place: int) -> Any:
    if not isinstance(instance, dict):
        return instance
    if list(instance) == ["b64"]:
        return _bytes_of(instance["b64"], f"instance {place}")
    return {
        name: _bytes_of(value["b64"], f'"{name}" of instance {place}')
        if isinstance(value, dict) and list(value) == ["b64"]
        else value
        for name, value in instance.items()
    }


def _bytes_of(text: Any, where: str) -> bytes:
    """Line breaks are welcome, as `base64` writes them; raises InvalidInput for what Python would skip over."""
    if not isinstance(text, str):
        raise InvalidInput(f'The "b64" in {where} is no text; it takes base64.')
    try:
        return b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise InvalidInput(f'The "b64" in {where} is not base64: {error}.') from error
