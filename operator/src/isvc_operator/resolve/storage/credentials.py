"""The credentials of a download, in the forms that KServe's users have them (docs/storage.md).

They come from a service account and its secrets, or from an entry of the storage secret: ``storage: {key, path,
parameters}``. A secret is for one kind of storage, which its first known key determines. Of two secrets for the same
kind the last one is used. No secret value is written into a Deployment: variables refer to the secret's keys.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from isvc_operator.api.components import StorageSpec
from isvc_operator.api.names import (
    ANNOTATION_IAM_ROLE,
    ANNOTATION_S3_PREFIX,
    CA_BUNDLE_CONFIG_MAP,
    CACHE_MOUNT,
    VOLUME_CACHE,
)
from isvc_operator.config import CacheConfig, CredentialsConfig, OperatorConfig, S3Config, StorageInitializerConfig
from isvc_operator.errors import InvalidCredentials
from isvc_operator.ignored.walker import suggestion, unknown_annotation
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest, NamedItem, annotations_of, name_of
from isvc_operator.resolve.requested import StorageRequest
from isvc_operator.resolve.storage.plan import (
    ObjectReference,
    Objects,
    PodPreset,
    json_object,
    read_key,
    read_only,
    secret_variable,
    variable,
)
from isvc_operator.text import one_line
from storage_initializer.schemes import ENTRY_FIELDS

# The suffix of the annotation, the variable (which is also the key in the secret), and the field of the configuration.
_S3_SETTINGS = (
    ("endpoint", "S3_ENDPOINT", "s3_endpoint"),
    ("usehttps", "S3_USE_HTTPS", "s3_use_https"),
    ("region", "AWS_DEFAULT_REGION", "s3_region"),
    ("verifyssl", "S3_VERIFY_SSL", "s3_verify_ssl"),
    ("usevirtualbucket", "S3_USER_VIRTUAL_BUCKET", "s3_use_virtual_bucket"),
    ("useaccelerate", "S3_USE_ACCELERATE", "s3_use_accelerate"),
    ("useanoncredential", "awsAnonymousCredential", "s3_use_anonymous_credential"),
    ("cabundle", "AWS_CA_BUNDLE", "s3_ca_bundle"),
    ("cabundle-configmap", "AWS_CA_BUNDLE_CONFIGMAP", "s3_ca_bundle_config_map"),
)
# They determine what is mounted where, so their values have to be known here.
_ABOUT_MOUNTS = ("AWS_CA_BUNDLE", "AWS_CA_BUNDLE_CONFIGMAP")


@dataclass(frozen=True)
class _S3Setting:
    text: str
    stored: bool  # under a key of the secret


def is_for_s3(secret: Manifest, config: S3Config) -> bool:
    """Whether a secret contains keys for S3, or settings of a public bucket."""
    return config.s3_secret_access_key_name in (secret.get("data") or {}) or _is_annotated(secret)


def s3_of_account(account: Manifest, config: S3Config) -> PodPreset:
    """Return the settings of an account without keys: it has a role in the cloud, or is for a public bucket."""
    if ANNOTATION_IAM_ROLE not in annotations_of(account) and not _is_annotated(account):
        return PodPreset()
    return PodPreset(env=tuple(_s3_variables(_s3_settings({"metadata": account["metadata"]}, config), account)))


def s3_of_secret(secret: Manifest, config: S3Config) -> PodPreset:
    """Return the keys by reference, followed by the settings."""
    settings = _s3_settings(secret, config)
    anonymous = "awsAnonymousCredential" in settings and settings["awsAnonymousCredential"].text.lower() in (
        "1",
        "true",
    )
    return PodPreset(env=(*_s3_keys(secret, config, optional=anonymous), *_s3_variables(settings, secret)))


def _s3_keys(secret: Manifest, config: S3Config, *, optional: bool) -> Iterator[NamedItem]:
    stored, name = secret.get("data") or {}, name_of(secret)
    keys = {
        "AWS_ACCESS_KEY_ID": config.s3_access_key_id_name,
        "AWS_SECRET_ACCESS_KEY": config.s3_secret_access_key_name,
    }
    missing = [key for key in keys.values() if key not in stored]
    if missing and not optional:
        raise InvalidCredentials(
            f"secret {name} lacks the key {' and '.join(missing)}; add it, "
            f'or annotate the secret with {ANNOTATION_S3_PREFIX}useanoncredential: "true" for a public bucket'
        )
    for variable_name, key in {**keys, "AWS_SESSION_TOKEN": "AWS_SESSION_TOKEN"}.items():
        if key in stored:
            yield secret_variable(variable_name, name, key)


def _s3_settings(holder: Manifest, config: S3Config) -> dict[str, _S3Setting]:
    """Return the values of the annotations, or else of the secret's data, or else of the configuration."""
    annotations, settings = annotations_of(holder), {}
    for ending, name, field in _S3_SETTINGS:
        annotated = annotations.get(ANNOTATION_S3_PREFIX + ending)
        stored = None if annotated else read_key(holder, name)
        if text := annotated or stored or getattr(config, field):
            settings[name] = _S3Setting(text, stored=bool(stored))
    return settings


def _s3_variables(settings: Mapping[str, _S3Setting], holder: Manifest) -> Iterator[NamedItem]:
    for name, setting in settings.items():
        by_reference = setting.stored and name not in _ABOUT_MOUNTS
        yield secret_variable(name, name_of(holder), name) if by_reference else variable(name, setting.text)
    if endpoint := settings.get("S3_ENDPOINT"):
        yield variable("AWS_ENDPOINT_URL", _endpoint_url(endpoint, settings.get("S3_USE_HTTPS")))


def _endpoint_url(endpoint: _S3Setting, use_https: _S3Setting | None) -> str:
    """Return the endpoint in the form that AWS's own tools read; the kubelet expands the reference in it."""
    plain = use_https is not None and use_https.text.lower() in ("0", "false")
    scheme = "" if "://" in endpoint.text else "http://" if plain else "https://"
    return scheme + ("$(S3_ENDPOINT)" if endpoint.stored else endpoint.text)


def _is_annotated(holder: Manifest) -> bool:
    return any(name.startswith(ANNOTATION_S3_PREFIX) for name in annotations_of(holder))


_BY_BUCKET = ("s3",)
_BY_PATH = ("hdfs", "webhdfs")
_FIELD = "spec.predictor.model.storage"


@dataclass(frozen=True)
class _SecretEntry:
    """One entry of the storage secret: its key and its JSON object."""

    key: str
    content: Mapping[str, Any]


def entry_preset(spec: StorageSpec, name: str, secret: Manifest | None) -> PodPreset:
    """Return the entry by reference, and the parameters that override it."""
    entry, env = _entry(spec, name, secret), list[NamedItem]()
    if entry:
        env.append(secret_variable("STORAGE_CONFIG", name, entry.key))
        if config_map := entry.content.get("cabundle_configmap"):
            env.append(variable("AWS_CA_BUNDLE_CONFIGMAP", str(config_map)))
    if spec.parameters:
        env.append(variable("STORAGE_OVERRIDE_CONFIG", json.dumps(spec.parameters, sort_keys=True)))
    return PodPreset(env=tuple(env))


def entry_uri(spec: StorageSpec, name: str, secret: Manifest | None) -> str:
    """Return the URI of ``path`` in the bucket that the parameters or the entry name."""
    entry = _entry(spec, name, secret)
    settings = {**(entry.content if entry else {}), **(spec.parameters or {})}
    kind, path = settings.get("type"), (spec.path or "").lstrip("/")
    if kind in _BY_PATH:
        return f"{kind}://{path}"
    if kind not in _BY_BUCKET:
        place = f"key {entry.key} of secret {name}" if entry else f"secret {name}, which has no entry for it,"
        raise InvalidCredentials(
            f"neither {place} nor {_FIELD}.parameters has a known type; "
            f"write {' or '.join(_BY_BUCKET)}, or {' or '.join(_BY_PATH)} where a ClusterStorageContainer downloads it"
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


_MOUNT = "/var/secrets"
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
# The key that determines the kind of storage, and the variables of that kind. Those of Azure, HDFS and ModelScope are
# for a ClusterStorageContainer that downloads from there.
_AZURE = ("SUBSCRIPTION_ID", "TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")
_BY_KEY: Mapping[str, Sequence[str]] = {
    "AZ_CLIENT_ID": [f"AZ_{name}" for name in _AZURE],
    "AZURE_CLIENT_ID": [f"AZURE_{name}" for name in _AZURE],
    "AZURE_STORAGE_ACCESS_KEY": ["AZURE_STORAGE_ACCESS_KEY"],
    "HF_TOKEN": ["HF_TOKEN"],
    "MODELSCOPE_API_TOKEN": ["MODELSCOPE_API_TOKEN"],
}


def credentials_of(account: Manifest | None, secrets: Sequence[Manifest], config: CredentialsConfig) -> PodPreset:
    """Return the credentials of ``account`` for the storage-initializer; secrets win over the account's annotations."""
    kinds = dict(_classified(secret, config) for secret in secrets)
    return sum(kinds.values(), s3_of_account(account, config.s3) if account else PodPreset())


def _classified(secret: Manifest, config: CredentialsConfig) -> tuple[str, PodPreset]:
    """Return the kind of storage and what the secret provides for it: nothing if it has another use."""
    keys, name = secret.get("data") or {}, name_of(secret)
    if is_for_s3(secret, config.s3):
        return "s3", s3_of_secret(secret, config.s3)
    if config.gcs.gcs_credential_file_name in keys:
        return "gs", _for_gcs(secret, config.gcs.gcs_credential_file_name)
    if "https-host" in keys:
        return _for_http(secret)
    if "HDFS_NAMENODE" in keys:
        volume = {"name": "hdfs-secrets", "secret": {"secretName": name}}
        return "hdfs", read_only(volume, f"{_MOUNT}/kserve-hdfscreds")
    kind = next((key for key in _BY_KEY if key in keys), "")
    variables = (key for key in _BY_KEY.get(kind, ()) if key in keys)
    return kind, PodPreset(env=tuple(secret_variable(key, name, key) for key in variables))


def _for_gcs(secret: Manifest, file: str) -> PodPreset:
    """Mount the key of a Google service account as the file that Google's libraries look for."""
    _check_json_object(secret, file, "the JSON file of a Google service account")
    volume = {"name": "user-gcp-sa", "secret": {"secretName": name_of(secret)}}
    return PodPreset(env=(variable("GOOGLE_APPLICATION_CREDENTIALS", f"{_MOUNT}/{file}"),)) + read_only(
        volume, f"{_MOUNT}/"
    )


def _for_http(secret: Manifest) -> tuple[str, PodPreset]:
    """Provide headers for one host. KServe writes their values into the pod; here the kubelet reads the secret."""
    host, name = (read_key(secret, "https-host") or "").strip(), name_of(secret)
    if not _HOST.fullmatch(host):
        raise InvalidCredentials(f"key https-host of secret {name} is not a host; write one such as example.com")
    if "headers" not in secret["data"]:
        raise InvalidCredentials(f"secret {name} lacks the key headers; add it, a JSON object of names and values")
    _check_json_object(secret, "headers", "a JSON object of names and values")
    return f"http {host}", PodPreset(env=(secret_variable(f"{host}-headers", name, "headers"),))


def _check_json_object(secret: Manifest, key: str, wanted: str) -> None:
    """Check the value without quoting it: it is secret."""
    if json_object(read_key(secret, key) or "") is None:
        raise InvalidCredentials(f"key {key} of secret {name_of(secret)} is not {wanted}; store that there")


_NEARLY = 0.85  # of a key of storage, from 0 to 1; the keys of other secrets are not as near
STORED = frozenset(
    {
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"),
        *(name for _, name, _ in _S3_SETTINGS),
        *(name for names in _BY_KEY.values() for name in names),
    }
)
"""The variables that a download can get from a secret."""


def unread_parts(request: StorageRequest, config: CredentialsConfig, objects: Objects) -> Iterator[str]:
    """Yield what is not read of the objects that were read for a download: mostly, it is misspelt."""
    names = (request.spec_secret(config, objects),) if request.spec else request.account_secrets(config, objects)
    holders = [
        objects.get(reference) for reference in (request.account, *(ObjectReference("Secret", it) for it in names))
    ]
    for holder in filter(None, holders):
        for name in islice(annotations_of(holder), NAMED):
            if why := _unread_annotation(name, config):
                yield f"{holder['kind']} {name_of(holder)}: annotation {one_line(name)}{why}"
    if request.spec:
        yield from _unread_fields(request.spec, names[0], objects.get(ObjectReference("Secret", names[0])))
    else:
        for secret in filter(None, holders[1:]):
            yield from _unread_keys(secret, config)


def _unread_annotation(name: str, config: CredentialsConfig) -> str:
    """Return what an annotation may be meant for; empty if it is read, or another's."""
    read = [ANNOTATION_S3_PREFIX + ending for ending, _, _ in _S3_SETTINGS]
    read += [config.storage_secret_name_annotation, ANNOTATION_IAM_ROLE]
    meant = f"{ANNOTATION_S3_PREFIX.partition('/')[0]}/{name}"
    return f" (did you mean {meant}?)" if meant in read else unknown_annotation(name, read)


def _unread_fields(spec: StorageSpec, name: str, secret: Manifest | None) -> Iterator[str]:
    """Yield the fields of the entry and the parameters that no download from S3 reads."""
    entry, parameters = _entry(spec, name, secret), spec.parameters or {}
    known = {"type", "bucket", "cabundle_configmap", *ENTRY_FIELDS}
    if (parameters.get("type") or (entry.content.get("type") if entry else "")) not in _BY_BUCKET:
        return
    places = {f"Secret {name}: {entry.key}": entry.content} if entry else {}
    for place, given in {f"{_FIELD}.parameters": parameters, **places}.items():
        for field in islice((each for each in given if each not in known), NAMED):
            yield f"{place}.{one_line(field)}{suggestion(field, known)}"


def _unread_keys(secret: Manifest, config: CredentialsConfig) -> Iterator[str]:
    """Yield the keys of a secret that are nearly those for a kind of storage; others may have another use."""
    if str(secret.get("type", "Opaque")) != "Opaque":
        return
    s3, gcs = config.s3, config.gcs.gcs_credential_file_name
    known = {*STORED, s3.s3_access_key_id_name, s3.s3_secret_access_key_name, gcs, "https-host", "headers"}
    for key in islice(secret.get("data") or {}, NAMED):
        if key not in known and (why := suggestion(key, known, least=_NEARLY)):
            yield f"Secret {name_of(secret)}: key {one_line(key)}{why}"


def download_preset(request: StorageRequest, config: OperatorConfig, objects: Objects) -> PodPreset:
    """Return the credentials, the certificates to trust, and the cache for a download over the network."""
    credentials, initializer = _credentials(request, config, objects), config.storage_initializer
    return credentials + _ca_bundle(credentials, initializer) + _cache(initializer.cache)


def _credentials(request: StorageRequest, config: OperatorConfig, objects: Objects) -> PodPreset:
    """Return those of the storage secret if the model names one, or else those of the service account."""
    if request.spec is not None:
        name = request.spec_secret(config.credentials, objects)
        return entry_preset(request.spec, name, objects.get(ObjectReference("Secret", name)))
    secrets = []
    for name in request.account_secrets(config.credentials, objects):
        if (secret := objects.get(ObjectReference("Secret", name))) is None:
            raise InvalidCredentials(
                f"secret {name}, which service account {request.account.name} or an annotation names, does not exist; "
                "create it, or remove its name there"
            )
        secrets.append(secret)
    return credentials_of(objects.get(request.account), secrets, config.credentials)


def _ca_bundle(credentials: PodPreset, config: StorageInitializerConfig) -> PodPreset:
    """Return the certificates to trust: of the ConfigMap that the credentials name, or else the administrator's."""
    own = credentials.value("AWS_CA_BUNDLE_CONFIGMAP")
    if not own and not config.ca_bundle_config_map_name:
        return PodPreset()
    name = own or CA_BUNDLE_CONFIG_MAP
    folder = posixpath.dirname(credentials.value("AWS_CA_BUNDLE")) or config.ca_bundle_volume_mount_path
    env = (variable("CA_BUNDLE_CONFIGMAP_NAME", name), variable("CA_BUNDLE_VOLUME_MOUNT_POINT", folder))
    return PodPreset(env=env) + read_only({"name": "cabundle-cert", "configMap": {"name": name}}, folder)


def _cache(config: CacheConfig | None) -> PodPreset:
    if config is None:
        return PodPreset()
    place = (
        {"persistentVolumeClaim": {"claimName": config.claim_name}}
        if config.claim_name
        else {"hostPath": {"path": config.host_path, "type": "DirectoryOrCreate"}}
    )
    return PodPreset(
        env=(variable("STORAGE_CACHE", CACHE_MOUNT), variable("STORAGE_CACHE_SIZE", str(config.max_bytes))),
        volumes=({"name": VOLUME_CACHE, **place},),
        mounts=({"name": VOLUME_CACHE, "mountPath": CACHE_MOUNT},),
    )
