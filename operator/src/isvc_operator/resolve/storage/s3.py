"""S3 keys and settings of a secret, and settings of a service account, by KServe's names (docs/storage.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from isvc_operator.api.names import ANNOTATION_IAM_ROLE, ANNOTATION_S3_PREFIX
from isvc_operator.config import S3Config
from isvc_operator.errors import InvalidCredentials
from isvc_operator.manifests import Manifest, NamedItem, annotations_of, name_of
from isvc_operator.resolve.storage.objects import read_key
from isvc_operator.resolve.storage.provision import Provision, secret_variable, variable

# The suffix of the annotation, the variable (which is also the key in the secret), and the field of the configuration.
_SETTINGS = (
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


def of_account(account: Manifest, config: S3Config) -> Provision:
    """Return the settings of an account without keys: it has a role in the cloud, or is for a public bucket."""
    if ANNOTATION_IAM_ROLE not in annotations_of(account) and not _is_annotated(account):
        return Provision()
    return Provision(env=tuple(_variables(_settings({"metadata": account["metadata"]}, config), account)))


def of_secret(secret: Manifest, config: S3Config) -> Provision:
    """Return the keys by reference, followed by the settings."""
    settings = _settings(secret, config)
    anonymous = "awsAnonymousCredential" in settings and settings["awsAnonymousCredential"].text.lower() in (
        "1",
        "true",
    )
    return Provision(env=(*_keys(secret, config, optional=anonymous), *_variables(settings, secret)))


def _keys(secret: Manifest, config: S3Config, *, optional: bool) -> Iterator[NamedItem]:
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


def _settings(holder: Manifest, config: S3Config) -> dict[str, _S3Setting]:
    """Return the values of the annotations, or else of the secret's data, or else of the configuration."""
    annotations, settings = annotations_of(holder), {}
    for ending, name, field in _SETTINGS:
        annotated = annotations.get(ANNOTATION_S3_PREFIX + ending)
        stored = None if annotated else read_key(holder, name)
        if text := annotated or stored or getattr(config, field):
            settings[name] = _S3Setting(text, stored=bool(stored))
    return settings


def _variables(settings: Mapping[str, _S3Setting], holder: Manifest) -> Iterator[NamedItem]:
    for name, setting in settings.items():
        by_reference = setting.stored and name not in _ABOUT_MOUNTS
        yield secret_variable(name, name_of(holder), name) if by_reference else variable(name, setting.text)
    if endpoint := settings.get("S3_ENDPOINT"):
        yield variable("AWS_ENDPOINT_URL", _url(endpoint, settings.get("S3_USE_HTTPS")))


def _url(endpoint: _S3Setting, use_https: _S3Setting | None) -> str:
    """Return the endpoint in the form that AWS's own tools read; the kubelet expands the reference in it."""
    plain = use_https is not None and use_https.text.lower() in ("0", "false")
    scheme = "" if "://" in endpoint.text else "http://" if plain else "https://"
    return scheme + ("$(S3_ENDPOINT)" if endpoint.stored else endpoint.text)


def _is_annotated(holder: Manifest) -> bool:
    return any(name.startswith(ANNOTATION_S3_PREFIX) for name in annotations_of(holder))
