"""Bodies of every kind that the data plane reads: each is one fragment after another, so many as fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from data_plane.protocol.v2 import open_inference_pb2 as pb

_VALUES = (
    b"0", b"0.5", b"-1e-300", b"255", b"true", b"null", b'""', b'"a"', b'"\\u00e9"', b'"\\\\"', b'"\xc3\xa9"',
    b"[]", b"{}",    b"[0]", b"[0.5,0.5]", b"[[0]]", b"[[[[[[]]]]]]", b'{"a":0}', b'{"a":[0],"b":""}', b'{"b64":""}',
    b"[{}]", b" 0", b"nul",
)  # fmt: skip
_DATATYPES = (b"FP32", b"FP64", b"INT64", b"UINT8", b"BOOL", b"BYTES", b"FP16", b"BF16")
_INPUTS = (
    b'{"name":"%d","datatype":"FP32","shape":[0],"data":[]}', b'{"name":"%d"}', b"{}", b"0",
    b'{"name":"%d","datatype":"BYTES","shape":[1],"data":[""],"parameters":{"a":1}}',
)  # fmt: skip
_PARTS = (
    b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n',
    b'--b\r\nContent-Disposition: form-data; name="a"; filename="f"\r\nContent-Type: text/plain\r\n\r\nx\r\n',
    b"--b\r\nA: b\r\n", b"\r\n--", b"\r\n-", b"\r", b"\n", b"-", b"a: b\r\n", b"\x00",
)  # fmt: skip
_FIELDS = (b"a=1", b"a", b"", b"%41=%42", b"+=+", b"a=%ff", b"=", b";")
_LETTERS = (b"a", b"\\n", b"\\u001b", b"\xe2\x80\xae", b"\xc3\xa9", b"\\\\", b'\\"', b" ")
_ELEMENTS = (b"", b"a", b"a" * 7, b"\xff" * 3)


@dataclass(frozen=True, slots=True)
class Body:
    """A body of a kind; `fragments` are repeated up to `size` bytes within what `form` puts around them."""

    kind: str
    form: int
    fragments: tuple[int, ...]
    size: int

    def bytes(self) -> bytes:
        return KINDS[self.kind].write(self)

    @property
    def headers(self) -> Mapping[str, str]:
        return KINDS[self.kind].headers


@dataclass(frozen=True, slots=True)
class Kind:
    """`paths` are those of the handler's, the bare and the SDK's model that take it; over gRPC, their names."""

    write: Callable[[Body], bytes]
    paths: tuple[str, ...]
    headers: Mapping[str, str]


def any_body(kind: str, chance: random.Random, size: int) -> Body:
    return Body(
        kind, chance.randrange(64), tuple(chance.randrange(64) for _ in range(chance.choice((1, 1, 1, 2, 3)))), size
    )


def neighbour(body: Body, chance: random.Random) -> Body:
    """One that differs in a fragment or in the form."""
    if chance.random() < 0.3:
        return replace(body, form=chance.randrange(64))
    index = chance.randrange(len(body.fragments))
    changed = (*body.fragments[:index], chance.randrange(64), *body.fragments[index + 1 :])
    return replace(body, fragments=changed)


def _repeated(body: Body, of: tuple[bytes, ...], opening: bytes, closing: bytes, between: bytes = b",") -> bytes:
    unit = between.join(of[index % len(of)] for index in body.fragments)
    times = max(1, (body.size - len(opening) - len(closing)) // max(1, len(unit) + len(between)))
    if b"%d" in unit:
        times = min(times, body.size // (len(unit) + len(between) + 4))
        return opening + between.join(unit.replace(b"%d", b"%d" % index) for index in range(times)) + closing
    return opening + between.join([unit] * times) + closing


def _v1(body: Body) -> bytes:
    forms = (
        (b'{"instances":[', b"]}"), (b'{"inputs":[', b"]}"), (b'{"instances":[[', b"]]}"), (b'{"instances":', b"}"),
        (b'{"a":[', b'],"instances":[]}'), (b'{"instances":[' + b"[" * 60, b"]" * 60 + b"]}"), (b"[", b"]"),
        (b'{"instances":[{"data":[', b"]}]}"), (b'{"instances":[', b""),
    )  # fmt: skip
    return _repeated(body, _VALUES, *forms[body.form % len(forms)])


def _v2(body: Body) -> bytes:
    datatype = _DATATYPES[body.form % len(_DATATYPES)]
    head = b'{"name":"x","datatype":"%b",' % datatype
    forms = (
        (b'{"inputs":[%b"shape":[-1],"data":[' % head, b"]}]}"),
        (b'{"inputs":[%b"shape":[-1,1],"data":[' % head, b"]}]}"),
        (b'{"inputs":[%b"shape":[1,-1],"data":[[' % head, b"]]}]}"),
        (b'{"inputs":[%b"data":[],"shape":[' % head, b"]}]}"),
        (b'{"a":[', b'],"inputs":[%b"shape":[0],"data":[]}]}' % head), (b'{"id":[', b'],"inputs":[]}'),
        (b'{"inputs":[%b"shape":[0],"data":[],"parameters":{"a":[' % head, b"]}}]}"),
    )  # fmt: skip
    return _repeated(body, _VALUES, *forms[body.form // len(_DATATYPES) % len(forms)])


def _v2_inputs(body: Body) -> bytes:
    forms = (
        (b'{"inputs":[', b"]}"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[0],"data":[]}],"outputs":[', b"]}"),
    )
    return _repeated(body, _INPUTS, *forms[body.form % len(forms)])


def _v2_names(body: Body) -> bytes:
    """Errors quote them, in the answer and in the log."""
    tensor = b'"datatype":"%b","shape":[7],"data":[]' % (b"FP32", b"none")[body.form % 2]
    forms = (
        (b'{"inputs":[{%b,"name":"' % tensor, b'"}]}'), (b'{"inputs":[{"name":"x","shape":[],"datatype":"', b'"}]}'),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":["', b'"]}]}'),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[{"name":"', b'"}]}'),
    )  # fmt: skip
    return _repeated(body, _LETTERS, *forms[body.form // 2 % len(forms)], b"")


def _v2_parameters(body: Body) -> bytes:
    fragments = tuple(b'"%%d":%b' % value for value in _VALUES)
    return _repeated(
        body, fragments, b'{"inputs":[{"name":"x","datatype":"FP32","shape":[0],"data":[]}],"parameters":{', b"}}"
    )


def _binary(body: Body) -> bytes:
    """The length of the JSON is always that of `_HEAD`."""
    if body.form % 2:
        datatype, memory = (
            b"BYTES",
            b"".join(
                len(one).to_bytes(4, "little") + one
                for one in (_ELEMENTS[index % len(_ELEMENTS)] for index in body.fragments)
            ),
        )
    else:
        datatype, memory = _DATATYPES[body.form // 2 % len(_DATATYPES)], bytes(one % 2 for one in body.fragments) * 8
    data = memory * ((body.size - _HEAD) // len(memory))
    text = b'{"parameters":{"binary_data_output":%b},"inputs":[{"name":"x","datatype":"%b","shape":[-1],' % (
        (b"true", b"false")[body.form // 4 % 2], datatype,
    )  # fmt: skip
    text += b'"parameters":{"binary_data_size":%d}}]}' % len(data)
    return text.ljust(_HEAD) + data


_HEAD = 256


def _event(body: Body) -> bytes:
    attributes = b'"specversion":"1.0","id":"1","source":"s","type":"t"'
    if body.form % 3 == 0:
        return _repeated(body, _VALUES, b'{%b,"data":{"instances":[' % attributes, b"]}}")
    fragments = tuple(b'"%%d":%b' % value for value in _VALUES)
    if body.form % 3 == 1:
        return _repeated(body, fragments, b"{%b," % attributes, b',"data":{"instances":[]}}')
    return _repeated(body, (b"AAAA", b"////"), b'{%b,"data_base64":"' % attributes, b'"}', b"")


def _message(body: Body) -> bytes:
    message = pb.ModelInferRequest()
    form, value = body.form % 9, body.fragments[0]
    if form < 2:  # messages one after the other are one, with the elements of all
        one = pb.ModelInferRequest(raw_input_contents=[b""]) if form == 0 else pb.ModelInferRequest(inputs=[{}])
        return one.SerializeToString() * (body.size // 2)
    if form == 2:
        for index in range(body.size // 12):
            message.parameters[f"{index:x}"].bool_param = True
    else:
        tensor = message.inputs.add(name="x", shape=[-1])
        _fill(message, tensor, form, value, body.size)
    return message.SerializeToString()


def _fill(
    message: pb.ModelInferRequest, tensor: pb.ModelInferRequest.InferInputTensor, form: int, value: int, size: int
) -> None:
    contents = tensor.contents
    if form == 3:
        tensor.datatype = "BYTES"
        contents.bytes_contents.extend(
            [_ELEMENTS[value % len(_ELEMENTS)]] * min(size // (2 + len(_ELEMENTS[value % 4])), 999_999)
        )
    elif form == 4:
        tensor.datatype = "FP32"
        contents.fp32_contents.extend([0.5] * (size // 4 - 10))
    elif form == 5:
        tensor.datatype = "INT64"
        contents.int64_contents.extend([value << 10] * (size // 2 - 10))
    elif form == 6:
        tensor.datatype = "BOOL"
        contents.bool_contents.extend([True] * min(size - 60, 3_999_999))
    elif form == 7:
        tensor.ClearField("shape")
        tensor.shape.extend([1] * (size - 60))
    else:
        tensor.ClearField("contents")
        tensor.datatype = "BYTES"
        message.raw_input_contents.append(b"\0\0\0\0" * (size // 4 - 10))


V1, V2 = "/v1/models/{}:predict", "/v2/models/{}/infer"
_ALL = ("handler", "bare", "hooks")
_JSON = {"content-type": "application/json"}
KINDS: dict[str, Kind] = {
    "v1": Kind(_v1, tuple(map(V1.format, _ALL)), _JSON),
    "v2": Kind(_v2, tuple(map(V2.format, _ALL)), _JSON),
    "v2-inputs": Kind(_v2_inputs, tuple(map(V2.format, _ALL)), _JSON),
    "v2-names": Kind(_v2_names, tuple(map(V2.format, _ALL)), _JSON),
    "v2-parameters": Kind(_v2_parameters, tuple(map(V2.format, _ALL)), _JSON),
    "v2-binary": Kind(_binary, tuple(map(V2.format, _ALL)), {"inference-header-content-length": str(_HEAD)}),
    "event": Kind(
        _event, (V1.format("handler"), V1.format("hooks")), {"content-type": "application/cloudevents+json"},
    ),
    "multipart": Kind(
        lambda body: _repeated(body, _PARTS, b"", b"--b--\r\n", b""),
        ("/predictions/handler",), {"content-type": "multipart/form-data; boundary=b"},
    ),
    "urlencoded": Kind(
        lambda body: _repeated(body, _FIELDS, b"a=", b"", b"&"),
        ("/predictions/handler",), {"content-type": "application/x-www-form-urlencoded"},
    ),
    "torchserve": Kind(_v1, ("/predictions/handler", "/predictions/bare"), _JSON),
    "grpc": Kind(_message, ("handler", "bare"), {}),
}  # fmt: skip
