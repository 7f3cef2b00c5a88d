"""What a service's storage refers to by name: a service account and secrets.

Some names are known only when another object has been read: an account lists its secrets. So ``references`` tells the
names as far as they are known, and whoever reads (``kube``, or the laptop from its files) asks until none is new.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.defaulting import model_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials
from isvc_operator.resolve.sources import given_sources

Manifest = Mapping[str, Any]


class Reference(NamedTuple):
    """An object in the service's namespace."""

    kind: str
    name: str


Objects = Mapping[Reference, Manifest | None]
"""What was read; None for what does not exist."""


def references(service: InferenceService, config: CredentialsConfig, known: Objects) -> frozenset[Reference]:
    """Everything that has to be read before the service's storage can be resolved, as far as ``known`` tells."""
    model = model_of(service.spec.predictor)
    if model is None or not _asks_who(service, model):
        return frozenset()
    account = account_of(service)
    return frozenset((account, *(_secrets(service, model, config, known) if account in known else ())))


def account_of(service: InferenceService) -> Reference:
    """The predictor's service account."""
    predictor = service.spec.predictor
    return Reference("ServiceAccount", predictor.service_account_name or predictor.service_account or "default")


def annotated_secret(service: InferenceService, config: CredentialsConfig, known: Objects) -> str | None:
    """The secret that an annotation of the predictor, the service or its account names, in this order."""
    account = known.get(account_of(service)) or {}
    places = (
        service.spec.predictor.annotations,
        service.metadata.annotations,
        annotations_of(account) if account else None,
    )
    names = ((place or {}).get(config.storage_secret_name_annotation) for place in places)
    return next(filter(None, names), None)


def account_secrets(service: InferenceService, config: CredentialsConfig, known: Objects) -> tuple[str, ...]:
    """The annotated secret alone, else those that the account lists; its image pull secrets are something else."""
    if annotated := annotated_secret(service, config, known):
        return (annotated,)
    account = known.get(account_of(service)) or {}
    return tuple(dict.fromkeys(item["name"] for item in account.get("secrets") or () if item.get("name")))


def annotations_of(body: Manifest) -> Mapping[str, str]:
    """The object's annotations."""
    return body["metadata"].get("annotations") or {}


def read_key(secret: Manifest, key: str) -> str | None:
    """The text under a key of a secret; None where it has no such key."""
    stored = (secret.get("data") or {}).get(key)
    try:
        return None if stored is None else base64.b64decode(stored, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        name = secret["metadata"]["name"]
        raise InvalidCredentials(f"key {key} of secret {name} is no text; store it again as it was issued") from None


def _asks_who(service: InferenceService, model: ModelSpec) -> bool:
    return model.storage is not None or any(source.remote for source in given_sources(service.spec.predictor, model))


def _secrets(
    service: InferenceService, model: ModelSpec, config: CredentialsConfig, known: Objects
) -> Iterator[Reference]:
    names = account_secrets(service, config, known)
    if model.storage is not None:
        names = (annotated_secret(service, config, known) or config.storage_spec_secret_name,)
    return (Reference("Secret", name) for name in names)
