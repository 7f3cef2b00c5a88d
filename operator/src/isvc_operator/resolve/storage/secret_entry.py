"""Storage by an entry of the storage secret: ``storage: {key, path, parameters}`` (docs/storage.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.components import StorageSpec
from isvc_operator.errors import InvalidCredentials
from isvc_operator.manifests import Manifest, NamedItem, name_of
from isvc_operator.resolve.storage.json_text import json_object
from isvc_operator.resolve.storage.objects import read_key
from isvc_operator.resolve.storage.provision import Provision, secret_variable, variable

_BY_BUCKET = ("s3",)
_BY_PATH = ("hdfs", "webhdfs")
_FIELD = "spec.predictor.model.storage"


@dataclass(frozen=True)
class _SecretEntry:
    """One entry of the storage secret: its key and its JSON object."""

    key: str
    content: Mapping[str, Any]


def provision_of(spec: StorageSpec, name: str, secret: Manifest | None) -> Provision:
    """Return the entry by reference, and the parameters that override it."""
    entry, env = _entry(spec, name, secret), list[NamedItem]()
    if entry:
        env.append(secret_variable("STORAGE_CONFIG", name, entry.key))
        if config_map := entry.content.get("cabundle_configmap"):
            env.append(variable("AWS_CA_BUNDLE_CONFIGMAP", str(config_map)))
    if spec.parameters:
        env.append(variable("STORAGE_OVERRIDE_CONFIG", json.dumps(spec.parameters, sort_keys=True)))
    return Provision(env=tuple(env))


def uri_of(spec: StorageSpec, name: str, secret: Manifest | None) -> str:
    """Return the URI of ``path`` in the bucket that the parameters or the entry name."""
    entry = _entry(spec, name, secret)
    settings = {**(entry.content if entry else {}), **(spec.parameters or {})}
    kind, path = settings.get("type"), (spec.path or "").lstrip("/")
    if kind in _BY_PATH:
        return f"{kind}://{path}"
    if kind not in _BY_BUCKET:
        place = f"key {entry.key} of secret {name}" if entry else f"secret {name}, which has no entry for it,"
        raise InvalidCredentials(
            f"neither {place} nor {_FIELD}.parameters has a known type ({kind or 'there is none'}); "
            f"write one of {', '.join((*_BY_BUCKET, *_BY_PATH))}"
        )
    if not settings.get("bucket"):
        raise InvalidCredentials(
            f"{_FIELD}.path needs a bucket; name it in {_FIELD}.parameters or in the entry of secret {name}"
        )
    return f"{kind}://{settings['bucket']}/{path}"


def _entry(spec: StorageSpec, name: str, secret: Manifest | None) -> _SecretEntry | None:
    """Return the entry that ``key`` names, which must exist; without a key that of the type, or else the default."""
    keys = (secret or {}).get("data") or {}
    if spec.key and spec.key not in keys:
        there = f"it has: {', '.join(sorted(keys)) or 'nothing'}" if secret else "there is no such secret"
        raise InvalidCredentials(f"secret {name} lacks the key {spec.key} of {_FIELD}.key; {there}")
    kind = (spec.parameters or {}).get("type")
    candidates = (spec.key,) if spec.key else (f"default_{kind}", "default") if kind else ("default",)
    key = next((candidate for candidate in candidates if candidate in keys), None)
    return _parsed(secret, key) if secret and key else None


def _parsed(secret: Manifest, key: str) -> _SecretEntry:
    content = json_object(read_key(secret, key) or "")
    if content is None:
        raise InvalidCredentials(
            f"key {key} of secret {name_of(secret)} is not a JSON object; write one with type, bucket and keys"
        )
    return _SecretEntry(key, content)
