"""A handler's context, what it may set on an answer, and what becomes of all that it can raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ts.context import RequestProcessor
from ts.utils.util import PredictionException

from tests.unit.torchserve_compat.running import context, instances, json_request, run, tensor_request, whole
from torchserve_compat import frames
from torchserve_compat.frames import Form, HandlerBatch, HandlerFailure, HandlerRequest, HandlerResponse, RequestPart
from torchserve_compat.worker import failures
from torchserve_compat.worker.calls import HandlerCalls


def raising(error: BaseException) -> Callable[..., Any]:
    def handle(*_: Any) -> Any:
        raise error

    return handle


class Unspeakable(Exception):
    def __str__(self) -> str:
        return str(1 / 0)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            FileNotFoundError(2, "No such file", "/models/m/labels.json"),
            HandlerFailure("FileNotFoundError : [Errno 2] No such file: '<model_dir>/labels.json'", 500),
        ),
        (PredictionException("too dark", "422"), HandlerFailure("too dark", 422)),
        *(
            (PredictionException("too dark", code), HandlerFailure("too dark", 500))
            for code in ("E42", None, 3, 199, 600)
        ),
        (ValueError("no label \ud800"), HandlerFailure(r"ValueError : no label \ud800", 500)),
        (PredictionException("no label \udfff", 404), HandlerFailure(r"no label \udfff", 404)),
        (Unspeakable(), HandlerFailure("Unspeakable : (it cannot be written: its text raises ZeroDivisionError)", 500)),
        (RuntimeError("CUDA error: out of memory"), HandlerFailure("Out of memory: CUDA error: out of memory", 507)),
        (RuntimeError("can't allocate memory"), HandlerFailure("Out of memory: can't allocate memory", 507)),
    ],
)
def test_what_a_handler_raises_is_told(error: Exception, failure: HandlerFailure) -> None:
    result = run("kserve", raising(error), "v1", [instances(1)])

    assert frames.decode_result(frames.encode(result)).failure == failure


def of_data(data: list[Any], _: Any) -> list[Any]:
    return [row.get("data") or row.get("body") for row in data]


def subscripting(data: list[Any], _: Any) -> list[Any]:
    return [row["data"] for row in data]


@pytest.mark.parametrize(
    ("handle", "form", "request_", "message"),
    [
        (
            of_data,
            "v1",
            instances([5.1, 3.5]),
            "AttributeError : 'list' object has no attribute 'get'. A row is what one instance of the request holds, "
            'and this one was a list: for a handler that takes "data" from its rows, send '
            '{"instances": [{"data": …}]}.',
        ),
        (
            subscripting,
            "v1",
            instances("a good movie"),
            "TypeError : string indices must be integers, not 'str'. A row is what one instance of the request holds, "
            'and this one was a str: for a handler that takes "data" from its rows, send {"instances": [{"data": …}]}.',
        ),
        (
            subscripting,
            "v2",
            tensor_request(x=[1.5]),
            "TypeError : 'float' object is not subscriptable. A row is what one instance of the request holds, and "
            'this one was a float: for a handler that takes "data" from its rows, name the input "data".',
        ),
        (
            lambda data, _: data[0]["data"].get("x"),
            "v1",
            instances({"data": [1]}),
            "AttributeError : 'list' object has no attribute 'get'",
        ),
    ],
)
def test_an_error_of_a_row_that_is_no_dictionary_says_what_to_send(
    handle: Any, form: Form, request_: HandlerRequest, message: str
) -> None:
    assert run("kserve", handle, form, [request_]).failure == HandlerFailure(message, 500)


def lowered(data: list[Any], _: Any) -> list[Any]:
    return [(row.get("data") or row.get("body")).lower() for row in data]


def form(content_type: str, *names: str) -> HandlerRequest:
    parts = [RequestPart(name, "", b"") for name in names]
    return HandlerRequest("1", ((b"content-type", content_type.encode()),), parts)


OF_NONE = "AttributeError : 'NoneType' object has no attribute 'lower'"
NEITHER = 'and neither "data" nor "body", which most handlers read'
SEND_AS_IT_IS = (
    "the body came as a form, as curl calls whatever it sends with -d; for a text or a file, send its own "
    "Content-Type, such as -H 'Content-Type: text/plain'"
)
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"


@pytest.mark.parametrize("envelope", ["kserve", "none"])
@pytest.mark.parametrize(
    ("request_", "has", "send"),
    [
        (form(URLENCODED, "good great"), '"good great"', SEND_AS_IT_IS),
        (form(URLENCODED, "x" * 50), f'"{"x" * 40}"', SEND_AS_IT_IS),
        (form(MULTIPART, "image"), '"image"', "name the field data"),
        (form(MULTIPART, *"abcdef"), '"a", "b", "c", "d", "e", …', "name the field data"),
    ],
)
def test_an_error_of_a_form_without_the_handlers_field_says_what_to_send(
    envelope: str, request_: HandlerRequest, has: str, send: str
) -> None:
    failure = run(envelope, lowered, "raw", [request_]).failure

    assert failure == HandlerFailure(f"{OF_NONE}. The request has {has} {NEITHER}: {send}.", 500)


@pytest.mark.parametrize("envelope", ["kserve", "none"])
@pytest.mark.parametrize(
    ("request_", "advice"),
    [
        (form(URLENCODED, "good great"), f'The request has "good great" {NEITHER}: {SEND_AS_IT_IS}.'),
        (whole(b""), "The body of the request was empty."),
    ],
)
def test_a_handler_that_returns_nothing_of_a_form_or_of_an_empty_body_is_told_what_to_send(
    envelope: str, request_: HandlerRequest, advice: str
) -> None:
    failure = run(envelope, lambda *_: None, "raw", [request_]).failure

    got = "The handler must return one prediction per instance in a list: 1 expected, got NoneType"
    assert failure == HandlerFailure(f"{got}. {advice}", 500)


@pytest.mark.parametrize(
    ("form_", "request_", "has", "send"),
    [
        ("v1", instances({"b64": "YQ=="}), '"b64"', 'send {"instances": [{"data": …}]}'),
        ("raw", instances({"data": "a"}, {"image": "a", "size": 1}), '"image", "size"',
         'send {"instances": [{"data": …}]}'),
        ("v2", tensor_request(image=[1.5], size=[1]), '"image", "size"', 'name the input "data"'),
    ],
)  # fmt: skip
def test_an_error_of_an_instance_without_the_handlers_field_says_what_to_send(
    form_: Form, request_: HandlerRequest, has: str, send: str
) -> None:
    failure = run("kserve", lowered, form_, [request_]).failure

    assert failure == HandlerFailure(f"{OF_NONE}. The request has {has} {NEITHER}: {send}.", 500)


def test_a_handler_that_looks_its_field_up_is_told_of_it_and_one_that_fails_for_another_reason_is_not() -> None:
    request = instances({"image": "a"})
    missed = run("kserve", subscripting, "v1", [request]).failure
    other = run("kserve", lambda data, _: data[0]["image"].no, "v1", [request]).failure

    assert missed == HandlerFailure(
        f'KeyError : \'data\'. The request has "image" {NEITHER}: send {{"instances": [{{"data": …}}]}}.', 500
    )
    assert other == HandlerFailure("AttributeError : 'str' object has no attribute 'no'", 500)


def test_a_key_that_a_row_lacks_is_told_with_what_the_row_has() -> None:
    request = instances({"txt": "a"})
    of_the_row = run("kserve", lambda data, _: [row["text"] for row in data], "v1", [request]).failure
    of_another = run("kserve", lambda data, _: [{}[row["txt"], 1] for row in data], "v1", [request]).failure

    assert of_the_row == HandlerFailure(
        "KeyError : 'text'. If the handler looked for it in a row: that has \"txt\".", 500
    )
    assert of_another == HandlerFailure("KeyError : ('a', 1)", 500)


def test_an_error_of_an_empty_body_says_that_it_is_empty() -> None:
    failure = run("kserve", raising(ValueError("no picture")), "raw", [whole(b"")]).failure

    assert failure == HandlerFailure("ValueError : no picture. The body of the request was empty.", 500)


def test_an_error_has_no_address_of_an_object() -> None:
    failure = run("kserve", raising(ValueError("unread: <BytesIO object at 0x7f79c0>, at 0x1")), "raw", [whole(b"a")])

    assert failure.failure == HandlerFailure("ValueError : unread: <BytesIO object>, at 0x1", 500)


def test_an_error_of_too_few_classes_names_the_setting() -> None:
    failure = run("kserve", raising(RuntimeError("selected index k out of range")), "v1", [instances(1)]).failure

    assert failure == HandlerFailure(
        "RuntimeError : selected index k out of range. The model has fewer classes than the topk that the handler asks "
        "for, 5 in TorchServe's image_classifier; set it in a class of your own: class MyClassifier(ImageClassifier): "
        "topk = 3.",
        500,
    )


def numbered(data: list[Any], _: Any) -> list[Any]:
    return [float(row) for row in data]


@pytest.mark.parametrize(
    ("form", "request_", "send"),
    [
        ("v1", instances({"data": 1.5}), 'send {"instances": [[…]]}'),
        ("v2", tensor_request(data=[1.5]), 'name the input neither "data" nor "body"'),
    ],
)
def test_an_error_of_a_dictionary_that_is_no_number_says_what_to_send(
    form: Form, request_: HandlerRequest, send: str
) -> None:
    failure = run("kserve", numbered, form, [request_]).failure

    assert failure == HandlerFailure(
        "TypeError : float() argument must be a string or a real number, not 'dict'. A row is what one instance of the "
        f"request holds, and this one was a dict: for a handler that takes the rows themselves, {send}.",
        500,
    )


@pytest.mark.process
def test_an_error_of_a_dictionary_that_is_no_tensor_says_what_to_send() -> None:
    import torch

    failure = run("kserve", lambda data, _: torch.as_tensor(data), "v1", [instances({"data": [1.5]})]).failure

    assert failure is not None
    assert failure.message.startswith("RuntimeError : Could not infer dtype of dict. A row is what one instance")


class Running:
    """Runs its model on tensors of one datatype, as TorchServe's BaseHandler does on what it makes of a request."""

    def __init__(self, model: Any, dtype: Any) -> None:
        self.model = model
        self._dtype = dtype

    def handle(self, *_: Any) -> Any:
        import torch

        return self.model(torch.zeros((1, 1, 4), dtype=self._dtype))


def networks() -> dict[str, Any]:
    from torch import nn

    return {"linear": nn.Linear(4, 2), "convolution": nn.Conv1d(1, 2, 2), "recurrent": nn.LSTM(4, 2),
            "normalized": nn.LayerNorm(4)}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("network", ["linear", "convolution", "recurrent", "normalized"])
@pytest.mark.parametrize("sent", ["int64", "float64"])
def test_an_error_of_another_datatype_says_what_to_send(network: str, sent: str) -> None:
    import torch

    result = run("kserve", Running(networks()[network], getattr(torch, sent)).handle, "v1", [instances(1)])

    assert result.failure is not None
    assert result.failure.message.endswith(
        ". The model's parameters are FP32: send numbers with a decimal point, over v2 as FP32, or let the handler's "
        "preprocess convert its input with .to(torch.float32)."
    )


@pytest.mark.process
def test_for_parameters_that_no_numbers_become_the_handler_has_to_convert_them() -> None:
    import torch

    result = run("kserve", Running(torch.nn.Linear(4, 2).bfloat16(), torch.float32).handle, "v1", [instances(1)])

    assert result.failure is not None
    assert result.failure.message.endswith(
        ". The model's parameters are BF16: let the handler's preprocess convert its input with .to(torch.bfloat16)."
    )


@pytest.mark.process
def test_an_error_about_whole_numbers_is_told_as_it_is() -> None:
    import torch

    result = run("kserve", Running(torch.nn.Embedding(4, 2), torch.float32).handle, "v1", [instances(1)])

    assert result.failure is not None
    assert "The model's parameters" not in result.failure.message


def test_an_exception_that_comes_again_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(failures, "_logged", {})
    monkeypatch.setattr(failures.time, "monotonic", lambda: now[0])

    def seen(handle: Callable[..., Any]) -> list[str]:
        caplog.clear()
        run("kserve", handle, "v1", [instances(1)])
        return [record.getMessage() for record in caplog.records]

    one, other = raising(ValueError("one")), raising(KeyError("other"))
    found = [seen(one), seen(one), seen(other), seen(other)]
    now[0] += 61
    found.append(seen(one))

    assert found == [["the handler failed"], [], ["the handler failed"], [], ["the handler failed"]]


def test_a_result_that_is_no_json_is_told() -> None:
    failure = run("kserve", lambda *_: [object()], "v1", [instances(1)]).failure

    assert failure is not None
    assert failure.message.startswith("The handler's result cannot be written as JSON: ")
    assert failure.status == 500


@pytest.mark.parametrize(("envelope", "form"), [("none", "raw"), ("none", "v2"), ("kserve", "v1"), ("kservev2", "v2")])
def test_a_result_of_half_a_surrogate_pair_is_told(envelope: str, form: Form) -> None:
    request = tensor_request(x=[1]) if form == "v2" else instances(1)
    failure = run(envelope, lambda *_: ["\ud800"], form, [request]).failure

    assert failure is not None
    assert (failure.message[-len("surrogates not allowed") :], failure.status) == ("surrogates not allowed", 500)


def test_json_of_torchserves_api_may_hold_half_a_surrogate_pair() -> None:
    (answer,) = run("none", lambda *_: [["\ud800"]], "raw", [whole(b"{}")]).responses

    assert answer.body == b'[\n  "\\ud800"\n]'


@pytest.mark.parametrize("status", [99, 100, 600, "none"])
def test_a_status_that_no_answer_can_have_is_told(status: Any) -> None:
    def handle(_: Any, context: Any) -> list[Any]:
        context.set_response_status(status, idx=0)
        return ["result"]

    message = f"The handler set the status {status!r}, which no response can have (200 to 599)."
    assert run("none", handle, "raw", [whole(b"{}")]).failure == HandlerFailure(message, 500)


@pytest.mark.parametrize(
    ("name", "value"), [("x-a", "b\r\nset-cookie: c"), ("x-a", "b\0"), ("two words", "b"), ("", "b"), ("x:a", "b")]
)
def test_a_header_that_http_cannot_carry_is_told(name: str, value: str) -> None:
    def handle(_: Any, context: Any) -> list[Any]:
        context.set_response_header(0, name, value)
        return ["result"]

    message = f"The handler set the header {name!r} to {value!r}, which HTTP cannot carry."
    assert run("none", handle, "raw", [whole(b"{}")]).failure == HandlerFailure(message, 500)


def test_headers_of_the_connection_are_the_servers_to_set() -> None:
    def handle(_: Any, context: Any) -> list[Any]:
        for name, value in (("Content-Length", "2"), ("transfer-encoding", "chunked"), ("X-Place", " 日本\t")):
            context.set_response_header(0, name, value)
        context.set_response_content_type(0, "text/日本")
        return ["result"]

    assert run("none", handle, "raw", [whole(b"{}")]).responses == [
        HandlerResponse(b"result", 200, "text/??", [("x-place", "??")])
    ]


def test_merged_requests_share_the_headers_that_are_the_same() -> None:
    def handle(data: list[Any], context: Any) -> list[Any]:
        return [context.get_request_header(1, "x-kind")] * len(data)

    same = run("kserve", handle, "v1", [json_request({"instances": [1]}, x_kind="odd")] * 2)
    other = run(
        "kserve", handle, "v1",
        [json_request({"instances": [1]}, x_kind="odd"), json_request({"instances": [1]}, x_kind="even")],
    )  # fmt: skip

    assert [answer.body for answer in same.responses] == [b'{"predictions":["odd"]}'] * 2
    assert other.failure == HandlerFailure("it reads the header x-kind", 500, alone=True)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda context: context.get_all_request_header(0), "it reads all headers"),
        (lambda context: context.set_response_status(404, idx=0), "it sets the status of a response"),
        (lambda context: context.set_response_header(0, "x-a", "b"), "it sets a header of a response"),
    ],
)
def test_what_is_one_requests_own_needs_a_batch_of_its_own(use: Callable[[Any], Any], message: str) -> None:
    def handle(data: list[Any], context: Any) -> list[Any]:
        use(context)
        return data

    assert run("kserve", handle, "v1", [instances(1), instances(2)]).failure == HandlerFailure(message, 500, alone=True)
    assert run("kserve", handle, "v1", [instances(1)]).failure is None


def test_without_an_envelope_each_request_of_a_batch_has_its_own_status_and_headers() -> None:
    def handle(rows: list[Any], context: Any) -> list[Any]:
        for index in range(len(rows)):
            kind = context.get_request_header(index, "x-kind")
            context.set_response_status(code=200 + index, idx=index)
            context.set_response_header(index, "X-Kind", kind)
            context.set_response_content_type(index, "text/x-own")
        return ["a", "b"]

    result = run("none", handle, "raw", [whole(b"1", x_kind="odd"), whole(b"2", x_kind="even")])

    assert result.responses == [
        HandlerResponse(b"a", 200, "text/x-own", [("x-kind", "odd")]),
        HandlerResponse(b"b", 201, "text/x-own", [("x-kind", "even")]),
    ]


def test_to_torchserve_a_frame_is_one_request_with_an_answer_of_its_own() -> None:
    """What the handler sets for the first request of a frame is not the frame's."""

    def handle(rows: list[Any], context: Any) -> list[Any]:
        context.set_response_status(code=404, idx=0)
        return rows

    torchserves = context()
    torchserves.request_processor, torchserves.request_ids = [RequestProcessor({})], {0: "torchserve's"}
    frame = frames.encode(HandlerBatch("raw", [whole(b"1", "text/plain"), whole(b"2", "text/plain")]))

    (answer,) = HandlerCalls(handle, "body").handle([{"body": bytearray(frame)}], torchserves)

    assert [(one.status, one.body) for one in frames.decode_result(answer).responses] == [(404, b"1"), (200, b"2")]
    assert torchserves.get_response_status(0)[0] == 200
    assert (torchserves.request_ids, torchserves.metrics.request_ids) == ({0: "torchserve's"}, {0: "torchserve's"})
