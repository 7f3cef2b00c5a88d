"""Envelopes: what a handler gets for a batch of requests, and how its results become their responses.

The envelopes have TorchServe's names and give handlers what TorchServe's give them. TorchServe's serve only the first
request of a batch; these serve all: the inputs of all requests (instances, or tensors) go to the handler in one list,
and its results are split back to the requests.

Every envelope accepts every form of request: a v2 request to a handler of instances is converted to instances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from torchserve_compat import values
from torchserve_compat.frames import Form, HandlerBatch, HandlerRequest, HandlerResponse
from torchserve_compat.values import HandlerOutputError
from torchserve_compat.worker.context import describe_requests
from torchserve_compat.worker.instances import decode_base64, has_instances, instances_in
from torchserve_compat.worker.merging import Handle, call_merged, serve_readable
from torchserve_compat.worker.unwrapped import advising

_JSON = "application/json"


class Envelope(Protocol):
    """Serves a batch with one call of the handler."""

    def serve(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        """Return one response for each request, in order; raises what the handler raises, and HandlerOutputError."""
        ...


def envelope_named(name: str, *, decodes: bool = True) -> Envelope:
    """Return the envelope with this name; "none" passes requests on as they are. Raises ValueError."""
    try:
        return _ENVELOPES[name](decodes=decodes)
    except KeyError:
        known = ", ".join(sorted(_ENVELOPES))
        raise ValueError(f"There is no service envelope {name!r}; there are {known}.") from None


class PlainEnvelope:
    """`none`: a request is the dictionary of its parts, a result is the body of its response."""

    def __init__(self, *, decodes: bool) -> None:
        self._decodes = decodes

    def serve(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        if batch.form == "v2":
            return self._serve_tensors(batch, handle, context)
        rows = [
            {part.name: values.decode(part, decodes=self._decodes) for part in request.parts}
            for request in batch.requests
        ]
        results = self._call(batch, rows, handle, context)
        return values.responses_of([values.encode(result) for result in results], context)

    def _serve_tensors(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        """Give the handler the JSON of the request; it returns the JSON of the response, or predictions."""
        from torchserve_compat import tensors

        rows: list[dict[str, Any]] = [{"body": tensors.document(request)} for request in batch.requests]
        bodies = [
            (tensors.encode_result(result), tensors.CONTENT_TYPE) for result in self._call(batch, rows, handle, context)
        ]
        return values.responses_of(bodies, context)

    def _call(self, batch: HandlerBatch, rows: list[dict[str, Any]], handle: Handle, context: Any) -> list[Any]:
        describe_requests(batch, context, merged=False)
        with advising(batch, rows):
            return values.results_of(handle(self.unwrap(rows), context), len(rows))

    def unwrap(self, rows: list[dict[str, Any]]) -> list[Any]:
        return list(rows)


class BodyEnvelope(PlainEnvelope):
    """`body`: a request is its body."""

    def unwrap(self, rows: list[dict[str, Any]]) -> list[Any]:
        return [row.get("data") or row.get("body") for row in rows]


class InstancesEnvelope:
    """`kserve`: the handler gets instances and returns one prediction for each."""

    def __init__(self, *, decodes: bool) -> None:
        self._plain = PlainEnvelope(decodes=decodes)

    def serve(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        match batch.form:
            case "v1" | "explain":
                key = "explanations" if batch.form == "explain" else "predictions"
                return self._serve(batch, handle, context, lambda results: values.encode_json({key: results}))
            case "v2":
                return self._serve_tensors(batch, handle, context)
            case _:
                return self._serve_raw(batch, handle, context)

    def prepare(self, instances: list[Any]) -> list[Any]:
        """Return the handler's input for the instances; raises InvalidRequest."""
        return instances

    def encode_raw(self, results: list[Any], form: Form) -> bytes:
        """Encode the response to instances in TorchServe's own API, byte for byte as TorchServe does."""
        return values.encode_indented({"explanations" if form == "raw-explain" else "predictions": results})

    def _serve(
        self, batch: HandlerBatch, handle: Handle, context: Any, encode: Callable[[list[Any]], bytes]
    ) -> list[HandlerResponse]:
        def respond(readable: HandlerBatch, instances: list[list[Any]]) -> list[HandlerResponse]:
            results = call_merged(readable, instances, handle, context)
            return values.responses_of([(encode(of_request), _JSON) for of_request in results], context)

        parse = values.loads if batch.form in ("raw", "raw-explain") else orjson.loads
        return serve_readable(batch, lambda request: self.prepare(instances_in(request, parse)), respond)

    def _serve_tensors(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        from torchserve_compat import tensors

        def respond(readable: HandlerBatch, instances: list[list[Any]]) -> list[HandlerResponse]:
            results = call_merged(readable, instances, handle, context)
            bodies = [(tensors.encode_predictions(of_request), tensors.CONTENT_TYPE) for of_request in results]
            return values.responses_of(bodies, context)

        return serve_readable(batch, lambda request: self.prepare(tensors.instances(request.parts)), respond)

    def _serve_raw(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        """Serve {"instances": …} as TorchServe does; the handler interprets anything else itself."""
        wrapped = [has_instances(request) for request in batch.requests]
        if all(wrapped):
            return self._serve(batch, handle, context, lambda results: self.encode_raw(results, batch.form))
        if any(wrapped):
            raise HandlerOutputError("requests with and without instances came together")  # retried one by one
        return self._plain.serve(batch, handle, context)


class JsonEnvelope(InstancesEnvelope):
    """`json`: like `kserve`, with {"b64": …} in instances decoded."""

    def prepare(self, instances: list[Any]) -> list[Any]:
        return [decode_base64(instance, index) for index, instance in enumerate(instances)]

    def encode_raw(self, results: list[Any], form: Form) -> bytes:  # noqa: ARG002 - TorchServe makes no difference
        return values.encode_indented({"predictions": results}, indent=None)


class OpenInferenceEnvelope:
    """`kservev2`: the handler gets input tensors as {"name", "shape", "datatype", "data"}.

    Its outputs have the inputs' names, in their order. There may be fewer, for example logits for ids and a mask.
    """

    def __init__(self, *, decodes: bool) -> None:
        self._plain = PlainEnvelope(decodes=decodes)

    def serve(self, batch: HandlerBatch, handle: Handle, context: Any) -> list[HandlerResponse]:
        from torchserve_compat import tensors

        def respond(readable: HandlerBatch, inputs: list[list[dict[str, Any]]]) -> list[HandlerResponse]:
            # With several requests it is unknown whose output is missing: they are retried one by one.
            results = call_merged(readable, inputs, handle, context, or_fewer=len(inputs) == 1)
            of_requests = zip(readable.requests, inputs, results, strict=True)
            return values.responses_of([self._encode(batch.form, *one, context) for one in of_requests], context)

        match batch.form:
            case "v2":
                return respond(batch, [tensors.inputs(request) for request in batch.requests])
            case "v1" | "explain":
                return serve_readable(
                    batch, lambda request: tensors.inputs_of_instances(instances_in(request)), respond
                )
            case _:
                found = [tensors.of_document(request) for request in batch.requests]
                documents = [one for one in found if one is not None]
                if not documents:
                    return self._plain.serve(batch, handle, context)
                if len(documents) < len(found):
                    raise HandlerOutputError("requests with and without tensors came together")  # retried one by one
                requests, inputs = zip(*documents, strict=True)
                return respond(HandlerBatch(batch.form, list(requests)), list(inputs))

    def _encode(
        self, form: Form, request: HandlerRequest, inputs: list[dict[str, Any]], results: list[Any], context: Any
    ) -> tuple[bytes, str]:
        from torchserve_compat import tensors

        names = [one["name"] for one in inputs]
        match form:
            case "v2":
                return tensors.encode_outputs(results, names), tensors.CONTENT_TYPE
            case "v1" | "explain":
                (rows,) = results  # all instances went as one input
                return values.encode_json({"explanations" if form == "explain" else "predictions": rows}), _JSON
            case _:
                return tensors.encode_document(results, names, request, context), _JSON


_ENVELOPES: dict[str, Callable[..., Envelope]] = {
    "none": PlainEnvelope,
    "body": BodyEnvelope,
    "kserve": InstancesEnvelope,
    "json": JsonEnvelope,
    "kservev2": OpenInferenceEnvelope,
}
