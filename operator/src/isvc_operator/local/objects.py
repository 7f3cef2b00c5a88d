"""Secrets, service accounts and config maps that stand in the same files as the services. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from isvc_operator.resolve.objects import Manifest, Objects, Reference

KINDS = ("Secret", "ServiceAccount", "ConfigMap")


def as_stored(body: Mapping[str, Any]) -> Manifest:
    """The object as an API server would hold it: what a secret says as text is encoded beside the rest."""
    plain = body.get("stringData") or {}
    encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
    kept = {name: value for name, value in body.items() if name != "stringData"}
    return {**kept, "data": {**(body.get("data") or {}), **encoded}} if body["kind"] == "Secret" else kept


def text_of(source: Mapping[str, Any], objects: Objects) -> str | None:
    """The text of a variable's ``valueFrom``; None where no file holds it."""
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if reference := source.get(field):
            found = _contents(objects.get(Reference(kind, reference["name"]))).get(reference["key"])
            return None if found is None else found.decode(errors="replace")
    return None


def files_of(volume: Mapping[str, Any], objects: Objects) -> Mapping[str, bytes] | None:
    """What a volume of a secret or config map holds, by the names of its files; None where no file holds it."""
    if "secret" in volume:
        body = objects.get(Reference("Secret", volume["secret"]["secretName"]))
    elif "configMap" in volume:
        body = objects.get(Reference("ConfigMap", volume["configMap"]["name"]))
    else:
        return None
    return None if body is None else _contents(body)


def _contents(body: Manifest | None) -> Mapping[str, bytes]:
    data: Mapping[str, str] = (body or {}).get("data") or {}
    if body is not None and body["kind"] == "Secret":
        return {key: base64.b64decode(text) for key, text in data.items()}
    return {key: text.encode() for key, text in data.items()}
