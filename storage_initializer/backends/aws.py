"""AWS identities, from the environment that the operator and AWS give a pod. obstore fetches and renews their keys.

The order is that of AWS's own tools, without the files of a home directory (``AWS_PROFILE``), which no pod has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage_initializer.backends.client import Client
from storage_initializer.errors import AccessDeniedError, InitializerError, UsageError
from storage_initializer.uri import checked_url

if TYPE_CHECKING:
    from obstore.store import S3Credential

_METADATA_SERVICE = "http://169.254.169.254"
_NODE_ROLE = "/latest/meta-data/iam/security-credentials/"


@dataclass(frozen=True)
class AwsIdentity:
    """Who reads, ``text`` for the log, and how obstore is told: by its settings, or the keys that are given.

    ``node`` is the metadata service that is to be asked first.
    """

    text: str
    settings: Mapping[str, str | bool] = field(default_factory=dict)
    keys: S3Credential | None = field(default=None, repr=False)
    node: str = ""

    def __str__(self) -> str:
        return self.text


# They are not used. With some, obstore does not read the environment's, of which it refuses one without the other.
_NO_KEYS: S3Credential = {"access_key_id": "", "secret_access_key": "", "token": None, "expires_at": None}
ANONYMOUS = AwsIdentity("anonymous", {"skip_signature": True}, keys=_NO_KEYS)


def aws_identity(environment: Mapping[str, str], region: str) -> AwsIdentity:
    """Return the first that is complete: anonymous, keys, a role, an agent; else the node's role. Pure.

    Raise UsageError for half of a pair of keys and for an invalid URL.
    """
    access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    role, role_token = environment.get("AWS_ROLE_ARN"), environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    agent = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    agent_token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if is_true(environment.get("awsAnonymousCredential", "")):
        return ANONYMOUS
    if bool(access_key) != bool(secret_key):
        given, missing = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")[:: 1 if access_key else -1]
        raise UsageError(f"{given} is given without {missing}; add it, or remove {given}")
    if access_key and secret_key:
        return _given(access_key, secret_key, environment.get("AWS_SESSION_TOKEN"))
    if role and role_token:
        session = environment.get("AWS_ROLE_SESSION_NAME") or "storage-initializer"
        service = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{domain_of(region)}"
        return _web_identity(role, role_token, session, checked_url("AWS_ENDPOINT_URL_STS", service))
    if agent and agent_token:
        checked_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent, "http://HOST[:PORT]/PATH")
        settings = {
            "container_credentials_full_uri": agent,
            "container_authorization_token_file": agent_token,
        }
        return AwsIdentity(f"pod identity ({agent})", settings)
    if is_true(environment.get("AWS_EC2_METADATA_DISABLED", "")):
        return ANONYMOUS
    service = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA_SERVICE
    node = checked_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", service, "http://HOST[:PORT]")
    return AwsIdentity("the node's role", {"metadata_endpoint": node}, node=node)


def found_on_node(identity: AwsIdentity, client: Client) -> AwsIdentity:
    """Ask the node for the name of its role. Without one, requests are anonymous, as many buckets are public."""
    try:
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = _fetch_from_node(client, "PUT", f"{identity.node}/latest/api/token", lifetime)
        name = _fetch_from_node(client, "GET", f"{identity.node}{_NODE_ROLE}", {"X-aws-ec2-metadata-token": token})
    except InitializerError as error:
        why = str(error).partition(";")[0]
        return AwsIdentity(f"anonymous (no keys are given, nor by the node: {why})", ANONYMOUS.settings)
    return AwsIdentity(f"{identity.text} {name}", identity.settings)


def domain_of(region: str) -> str:
    """Return the domain of Amazon's endpoints for a region; China has its own."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes")


def _given(access_key: str, secret_key: str, token: str | None) -> AwsIdentity:
    keys: S3Credential = {
        "access_key_id": access_key,
        "secret_access_key": secret_key,
        "token": token or None,
        "expires_at": None,
    }
    return AwsIdentity(f"access key {access_key}", keys=keys)


def _web_identity(role: str, token_file: str, session: str, service: str) -> AwsIdentity:
    """IAM roles for service accounts: the pod's token for keys of the role."""
    settings = {
        "role_arn": role,
        "web_identity_token_file": token_file,
        "role_session_name": session,
        # obstore's own types have another name, which it does not know.
        "aws_endpoint_url_sts": service,
    }
    return AwsIdentity(f"role {role} (web identity, {service})", settings)


def _fetch_from_node(client: Client, method: str, url: str, headers: Mapping[str, str]) -> str:
    response = client.fetch(method, url, headers)
    if response.status != 200:
        raise AccessDeniedError(f"{url} responds with {response.status}; give the node a role, or AWS_ACCESS_KEY_ID")
    return response.body.decode(errors="replace").strip()
