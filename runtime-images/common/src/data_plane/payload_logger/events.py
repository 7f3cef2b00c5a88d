"""Payloads, and the CloudEvents that they become: KServe's types and attributes, in binary mode. Pure."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum

import msgspec

from data_plane.messages import Headers
from data_plane.payload_logger.settings import LoggerSettings
from data_plane.protocol.cloudevents import encoded

# gRPC's framing of a message, for events with its content type: not compressed, and the length.
_GRPC_PREFIX = struct.Struct(">BI")
GRPC_TYPE = b"application/grpc"
_TYPES = "org.kubeflow.serving.inference"


class PayloadKind(Enum):
    REQUEST = "request"
    RESPONSE = "response"


class Payload(msgspec.Struct, frozen=True):
    """One request or response; `headers` are those of the request that are sent with it, `time` is in seconds."""

    kind: PayloadKind
    id: str
    content_type: bytes
    pieces: Sequence[bytes]
    headers: Headers
    time: float
    size: int  # bytes that it holds in memory, about


class EventWriter:
    """Writes the headers of events; `source` is the pod's name."""

    def __init__(self, settings: LoggerSettings, source: str) -> None:
        self._names = {name.lower().encode("latin-1", "replace"): name for name in settings.metadata_headers}
        common = {
            "specversion": "1.0",
            "source": source,
            "inferenceservicename": settings.inference_service,
            "namespace": settings.namespace,
            "component": settings.component,
            "endpoint": settings.endpoint,
        }
        self._common = [(f"ce-{name}", encoded(value)) for name, value in common.items() if value]
        if settings.annotations:
            self._common.append(("ce-annotations", _json(settings.annotations)))

    def selected(self, headers: Headers) -> Headers:
        return tuple(pair for pair in headers if pair[0] in self._names) if self._names else ()

    def headers(self, payload: Payload) -> list[tuple[str, str]]:
        at = datetime.fromtimestamp(payload.time, timezone.utc).isoformat()
        content_type = [("content-type", payload.content_type.decode("latin-1"))] if payload.content_type else []
        return [
            *content_type,
            *self._common,
            ("ce-type", f"{_TYPES}.{payload.kind.value}"),
            ("ce-id", encoded(payload.id)),
            ("ce-time", at),
            ("ce-recordedtime", at),
            ("ce-metadata", _json(self._metadata(payload.headers))),
        ]

    def _metadata(self, headers: Headers) -> dict[str, list[str]]:
        """Return the values of each header, under its name as the settings write it."""
        metadata: dict[str, list[str]] = {}
        for name, value in headers:
            metadata.setdefault(self._names[name], []).append(value.decode("latin-1"))
        return metadata


def grpc_frame(message: bytes) -> tuple[bytes, bytes]:
    """Return a serialized message as a gRPC call carries it: its prefix, and itself."""
    return _GRPC_PREFIX.pack(0, len(message)), message


def _json(value: object) -> str:
    """Return JSON that is the same with and without percent-decoding: KServe's agent does not encode attributes."""
    return json.dumps(value, separators=(",", ":")).replace("%", "\\u0025")
