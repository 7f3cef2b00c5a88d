"""The form that sends a request to a service, and shows the response and where its time went."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from jinja2 import Environment

from isvc import limits
from isvc.dashboard.access import VIEWER
from isvc.dashboard.errors import HttpRefusal
from isvc.dashboard.fields import fields_of, text_of
from isvc.dashboard.pages import Pages
from isvc.dashboard.samples import SampleBody, sample, with_file
from isvc.dashboard.states import summary_of
from isvc.inference.protocol import InferenceProtocol, document_in, metadata_path, models_in
from isvc.inference.timing import HEADER, REST, parts_of, stages_of
from isvc.view.source import Reachable, ServiceRequest, ServiceResponse, ServiceSource
from isvc.view.values import HealthStatus, ServiceView
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

# The requests that are known to fit a service's models, by the models' names.
KnownRequests = Callable[[ServiceKey], Awaitable[Mapping[str, tuple[InferenceProtocol, bytes]]]]

_STAGES = {
    "queue": "waited for the model",
    "batch": "waited for the batch to fill",
    "model": "in the model",
    "transport": "to the model and back",
    REST: "the server's HTTP, the ingress and the network",
}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]')  # without the space between
_MODELS = 100  # in the form's list
_FILE = "FILE"  # in a command that is copied, where the file's base64 is put
_LABELS = 5


@dataclass(frozen=True)
class Split:
    """A part of a response's time; ``share`` is in per cent, and ``start`` the sum of those before."""

    name: str
    text: str
    seconds: float
    start: float
    share: float


def split_of(response: ServiceResponse) -> Sequence[Split]:
    """Return where the time of a response went; nothing if the server does not say, or nothing that can be true."""
    header = next((value for name, value in response.headers.items() if name.lower() == HEADER.lower()), "")
    total, start, splits = response.seconds * 1000, 0.0, list[Split]()
    for name, value in parts_of(stages_of(header), total):
        share = 100 * value / total if total else 0.0
        splits.append(Split(name, _STAGES.get(name, ""), value / 1000, start, share))
        start += share
    return tuple(splits)


def labels_of(body: bytes) -> Sequence[tuple[str, float]]:
    """Return the labels or the numbers of the likeliest classes of the first prediction, with their probabilities."""
    found = document_in(_bounded(body))
    predictions = found.get("predictions") if isinstance(found, dict) else None
    first = predictions[0] if isinstance(predictions, list) and predictions else None
    if isinstance(first, list):
        first = {f"class {number}": value for number, value in enumerate(first)}
    if not isinstance(first, dict) or len(first) < 2 or not all(map(_is_probability, first.values())):
        return ()
    if sum(first.values()) > 1.01:  # they are rounded
        return ()
    return sorted(first.items(), key=lambda item: -item[1])[:_LABELS]


def _is_probability(value: Any) -> bool:
    return isinstance(value, float) and 0 <= value <= 1


class Requests:
    """The form, and what it sends."""

    def __init__(self, source: ServiceSource, pages: Pages, templates: Environment, known: KnownRequests) -> None:
        self._source = source
        self._known = known
        self._pages = pages
        self._templates = templates
        self._bytes = 0  # of the requests that are being sent

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return (
            web.get("/services/{namespace}/{name}/sample", self.form),
            web.post("/services/{namespace}/{name}/request", self.send),
        )

    async def form(self, request: web.Request) -> web.Response:
        """Return the form, with a sample that fits the model; of a service that does not serve, why that is so."""
        key, service = self._pages.find(request)
        reach = request[VIEWER].reach
        protocol = _protocol(request.query.get("protocol", "v1"))
        try:
            response = await reach.send(key, ServiceRequest(method="GET", path="/v1/models"))
        except OperatorError as error:
            return self._unserved(key, service, str(error))
        is_of_server = response.status < 500 and service.health is not HealthStatus.STOPPED
        if service.health is not HealthStatus.READY and not is_of_server:
            return self._unserved(key, service)
        models = (models_in(_bounded(response.body)) or [])[:_MODELS]
        model = request.query.get("model") or next(iter(models), key.name)
        metadata = await self._metadata(reach, key, model)
        begin, address = sample(protocol, metadata), self._source.address(key)
        if begin.note:  # nothing but zeros are made of metadata
            begin = await self._known_sample(key, model, protocol) or begin
        return self._html("form", key=key, protocol=protocol.value, models=models or [model], model=model,
                          body=begin.body, note=begin.note, target=protocol.path(model), address=address,
                          with_file=with_file(protocol, metadata, _FILE))  # fmt: skip

    async def send(self, request: web.Request) -> web.Response:
        """Send what the form says, and return the response as HTML."""
        largest = limits.DASHBOARD_REQUEST_BYTES
        size = largest if request.content_length is None else min(request.content_length, largest)
        if self._bytes + size > limits.DASHBOARD_REQUESTS_BYTES:
            raise HttpRefusal(503, "other large requests are being sent; try again when they have been answered")
        self._bytes += size
        try:
            return await self._send(request)
        finally:
            self._bytes -= size

    async def _send(self, request: web.Request) -> web.Response:
        key, _ = self._pages.find(request)
        reach = request[VIEWER].reach
        fields = await fields_of(request)
        protocol, model = _protocol(text_of(fields, "protocol") or "v1"), text_of(fields, "model")
        body = text_of(fields, "body").encode(errors="replace")
        file = fields.get("file")
        if isinstance(file, web.FileField) and (content := file.file.read()):
            text = base64.b64encode(content).decode()
            body = with_file(protocol, await self._metadata(reach, key, model), text).encode()
        path = protocol.path(model)
        headers = {"Content-Type": "application/json", "X-Server-Timing": "1"}
        try:
            response = await reach.send(key, ServiceRequest(method="POST", path=path, headers=headers, body=body))
        except OperatorError as error:
            return self._html("unanswered", message=str(error))
        text, left_out = _text(response.body)
        return self._html("response", response=response, path=path, text=text, left_out=left_out,
                          splits=split_of(response), labels=labels_of(response.body), sent=len(body))  # fmt: skip

    def _unserved(self, key: ServiceKey, service: ServiceView, message: str = "") -> web.Response:
        """Return why there is no form: the service does not serve, or it cannot be reached from here."""
        if service.health is HealthStatus.READY:
            return self._html("unanswered", message=message)
        return self._html("unserved", key=key, summary=summary_of(service), message=message)

    async def _known_sample(self, key: ServiceKey, model: str, protocol: InferenceProtocol) -> SampleBody | None:
        of, body = (await self._known(key)).get(model, (None, b""))
        is_shown = of is protocol and len(body) <= limits.DASHBOARD_RESPONSE_BYTES
        return SampleBody(body.decode(errors="replace").strip()) if is_shown else None

    @staticmethod
    async def _metadata(reach: Reachable, key: ServiceKey, model: str) -> Mapping[str, Any]:
        try:
            response = await reach.send(key, ServiceRequest(method="GET", path=metadata_path(model)))
        except OperatorError:
            return {}
        found = document_in(_bounded(response.body)) if response.status == 200 else None
        return found if isinstance(found, dict) else {}

    def _html(self, part: str, **context: Any) -> web.Response:
        text = self._templates.get_template(f"parts/{part}.html").render(**context)
        return web.Response(text=text, content_type="text/html")


def _protocol(text: str) -> InferenceProtocol:
    if text not in ("v1", "v2"):
        raise HttpRefusal(400, f"{one_line(text, 40)!r} is not a protocol; choose v1 or v2")
    return InferenceProtocol(text)


def _bounded(body: bytes) -> bytes:
    """Return a body, or nothing of one that is too large to be read here."""
    return body if len(body) <= limits.DASHBOARD_RESPONSE_BYTES else b""


def _tokens(text: str) -> Sequence[str]:
    """Return the texts, numbers and marks of JSON as they are written; texts with escapes are not like others."""
    return _TOKEN.findall(text)


def _text(body: bytes) -> tuple[str, int]:
    """Return the beginning of a response, JSON with indents, and how many bytes are left out."""
    shown = body[: limits.DASHBOARD_RESPONSE_BYTES]
    if len(shown) == len(body) and len(body) < limits.DASHBOARD_RESPONSE_BYTES // 4:
        try:
            text = body.decode()
            indented = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
            return (indented if _tokens(indented) == _tokens(text) else text), 0
        except (ValueError, RecursionError):
            pass
    return shown.decode(errors="replace"), len(body) - len(shown)
