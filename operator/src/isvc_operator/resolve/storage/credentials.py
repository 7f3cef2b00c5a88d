"""The credentials of a service account, in the form that KServe's users have them (docs/storage.md).

A secret is for one kind of storage, which its first known key determines. Of two secrets for the same kind the last
one is used. No secret value is written into a Deployment: variables refer to the secret's keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.resolve.storage import s3
from isvc_operator.resolve.storage.json_text import json_object
from isvc_operator.resolve.storage.objects import read_key
from isvc_operator.resolve.storage.provision import Provision, read_only, secret_variable, variable

_MOUNT = "/var/secrets"
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


def credentials_of(account: Manifest | None, secrets: Sequence[Manifest], config: CredentialsConfig) -> Provision:
    """Return the credentials of ``account`` for the storage-initializer; secrets win over the account's annotations."""
    kinds = dict(_classified(secret, config) for secret in secrets)
    return sum(kinds.values(), s3.of_account(account, config.s3) if account else Provision())


def _classified(secret: Manifest, config: CredentialsConfig) -> tuple[str, Provision]:
    """Return the kind of storage and what the secret provides for it: nothing if it has another use."""
    keys, name = secret.get("data") or {}, name_of(secret)
    if s3.is_for_s3(secret, config.s3):
        return "s3", s3.of_secret(secret, config.s3)
    if config.gcs.gcs_credential_file_name in keys:
        return "gs", _for_gcs(secret, config.gcs.gcs_credential_file_name)
    if "https-host" in keys:
        return _for_http(secret)
    if "HDFS_NAMENODE" in keys:
        volume = {"name": "hdfs-secrets", "secret": {"secretName": name}}
        return "hdfs", read_only(volume, f"{_MOUNT}/kserve-hdfscreds")
    kind = next((key for key in _BY_KEY if key in keys), "")
    variables = (key for key in _BY_KEY.get(kind, ()) if key in keys)
    return kind, Provision(env=tuple(secret_variable(key, name, key) for key in variables))


def _for_gcs(secret: Manifest, file: str) -> Provision:
    """Mount the key of a Google service account as the file that Google's libraries look for."""
    _json_object(secret, file, "the JSON file of a Google service account")
    volume = {"name": "user-gcp-sa", "secret": {"secretName": name_of(secret)}}
    return Provision(env=(variable("GOOGLE_APPLICATION_CREDENTIALS", f"{_MOUNT}/{file}"),)) + read_only(
        volume, f"{_MOUNT}/"
    )


def _for_http(secret: Manifest) -> tuple[str, Provision]:
    """Provide headers for one host. KServe writes their values into the pod; here the kubelet reads the secret."""
    host, name = (read_key(secret, "https-host") or "").strip(), name_of(secret)
    if not host or "/" in host:
        raise InvalidCredentials(f"key https-host of secret {name} is {host!r}; write a host such as example.com")
    if "headers" not in secret["data"]:
        raise InvalidCredentials(f"secret {name} lacks the key headers; add it, a JSON object of names and values")
    _json_object(secret, "headers", "a JSON object of names and values")
    return f"http {host}", Provision(env=(secret_variable(f"{host}-headers", name, "headers"),))


def _json_object(secret: Manifest, key: str, wanted: str) -> None:
    """Check the value without quoting it: it is secret."""
    if json_object(read_key(secret, key) or "") is None:
        raise InvalidCredentials(f"key {key} of secret {name_of(secret)} is not {wanted}; store that there")
