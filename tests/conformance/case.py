"""One row of the conformance table: a request, what TorchServe answers it with, and where ours differ on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.runtimes import Answer, Request


@dataclass(frozen=True)
class Refusal:
    """An error of ours: `{"error": …}`, with these words in it."""

    status: int
    words: str


@dataclass(frozen=True)
class Case:
    """`status` is TorchServe's. Without `ours`, ours give the same answer byte for byte.

    Answers of the v1 and v2 protocols are the same JSON, but ours is not indented. And where a handler names no content
    type TorchServe sends none, while ours say what its result is.
    """

    name: str
    feature: str
    model: str
    request: Request
    status: int = 200
    ours: Answer | Refusal | None = None
    why: str = ""

    @property
    def speaks_a_protocol(self) -> bool:
        return self.request.path.startswith(("/v1/", "/v2/"))


JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
ERROR_FORM = 'every error of ours is `{"error": …}`'
SAID_BY_HANDLER = "a 500 with the handler's exception"
NAMED = "it names the models and versions that are served"


def predictions(model: str, body: bytes = b"", content_type: str | None = None, **headers: str) -> Request:
    """A request of TorchServe's own API. `model` may carry a version; `x_do="show"` is the header `x-do: show`."""
    return Request("POST", f"/predictions/{model}", body, _headers(content_type, headers))


def v1(model: str, body: bytes, verb: str = "predict", **headers: str) -> Request:
    return Request("POST", f"/v1/models/{model}:{verb}", body, _headers(JSON, headers))


def v2(model: str, body: bytes, **headers: str) -> Request:
    return Request("POST", f"/v2/models/{model}/infer", body, _headers(JSON, headers))


def _headers(content_type: str | None, named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    headers = tuple((name.replace("_", "-"), value) for name, value in named.items())
    return headers if content_type is None else (*headers, ("content-type", content_type))


def multipart(parts: Mapping[str, tuple[str | None, bytes]], boundary: str = "a-boundary") -> tuple[bytes, str]:
    """(body, content type) of a form; each part is its content type and its bytes, a file where there is a type."""
    lines = []
    for name, (content_type, content) in parts.items():
        file = f'; filename="{name}.bin"\r\nContent-Type: {content_type}' if content_type else ""
        lines.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content)
    return b"\r\n".join([*lines, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
