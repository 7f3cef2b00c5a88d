"""AWS identities, from the environment that the operator and AWS give a pod, and their keys.

The order is that of AWS's own tools, without the files of a home directory (``AWS_PROFILE``), which no pod has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from urllib.parse import urlencode
from xml.etree import ElementTree

from storage_initializer.backends.client import Client, WholeResponse
from storage_initializer.backends.sigv4 import Keys
from storage_initializer.errors import AccessDeniedError, InitializerError, UnexpectedResponseError
from storage_initializer.plan import RequestPolicy

Now = Callable[[], datetime]

# How long before a key expires the next one is fetched.
_MARGIN = timedelta(minutes=5)
_AGENT_OF_ECS = "http://169.254.170.2"
_METADATA_SERVICE = "http://169.254.169.254"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_NODE_KEYS = "/latest/meta-data/iam/security-credentials/"
# A service on the node responds at once, or not at all.
_NEAR_S = 1.0


@dataclass(frozen=True)
class AnonymousAws:
    why: str = ""

    def __str__(self) -> str:
        return f"anonymous ({self.why})" if self.why else "anonymous"


@dataclass(frozen=True)
class AccessKey:
    keys: Keys

    def __str__(self) -> str:
        return f"access key {self.keys.access_key}"


@dataclass(frozen=True)
class WebIdentity:
    """IAM roles for service accounts: the pod's token for keys of the role."""

    role: str
    token_file: str
    session: str
    endpoint: str

    def __str__(self) -> str:
        return f"role {self.role} (web identity, {self.endpoint})"


@dataclass(frozen=True)
class PodIdentity:
    """EKS pod identity: an agent on the node provides the keys of the pod's role."""

    url: str
    token_file: str

    def __str__(self) -> str:
        return f"pod identity ({self.url})"


@dataclass(frozen=True)
class NodeRole:
    """The role of the EC2 instance, if this is one and its metadata service is open to pods (IMDSv2)."""

    url: str
    name: str = ""

    def __str__(self) -> str:
        return f"the node's role {self.name}".rstrip()


AwsIdentity = AnonymousAws | AccessKey | WebIdentity | PodIdentity | NodeRole


def aws_identity(environment: Mapping[str, str], region: str) -> AwsIdentity:
    """Return the first that is complete: anonymous, keys, a role, an agent; else the node's role. Pure."""
    if is_true(environment.get("awsAnonymousCredential", "")):
        return AnonymousAws()
    access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        return AccessKey(Keys(access_key, secret_key, environment.get("AWS_SESSION_TOKEN", "")))
    role, token_file = environment.get("AWS_ROLE_ARN"), environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if role and token_file:
        session = environment.get("AWS_ROLE_SESSION_NAME") or "storage-initializer"
        endpoint = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{domain_of(region)}"
        return WebIdentity(role, token_file, session, endpoint.rstrip("/"))
    path, agent = (environment.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
    if path or agent:
        url = f"{_AGENT_OF_ECS}{path}" if path else str(agent)
        return PodIdentity(url, environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""))
    if is_true(environment.get("AWS_EC2_METADATA_DISABLED", "")):
        return AnonymousAws()
    return NodeRole((environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA_SERVICE).rstrip("/"))


def policy_for(identity: AwsIdentity, policy: RequestPolicy) -> RequestPolicy:
    return replace(policy, connect_s=_NEAR_S, read_s=_NEAR_S) if isinstance(identity, NodeRole) else policy


def domain_of(region: str) -> str:
    """Return the domain of Amazon's endpoints for a region; China has its own."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes")


class KeyProvider:
    """The keys of an identity, fetched where necessary and again before they expire."""

    def __init__(self, identity: AwsIdentity, client: Client, now: Now) -> None:
        self._identity = identity
        self._client = client
        self._now = now
        self._lock = Lock()
        self._fetched: tuple[Keys, datetime] | None = None

    def __str__(self) -> str:
        return str(self._identity)

    def reopen(self) -> None:
        self._client.reopen()

    def close(self) -> None:
        self._client.close()

    def keys(self) -> Keys | None:
        """Return the current keys, None where requests are not signed."""
        with self._lock:
            match self._identity:
                case AnonymousAws():
                    return None
                case AccessKey(keys):
                    return keys
            if not self._fetched or self._fetched[1] - self._now() < _MARGIN:
                self._fetched = self._fetch(self._identity)
            return self._fetched[0] if self._fetched else None

    def _fetch(self, identity: WebIdentity | PodIdentity | NodeRole) -> tuple[Keys, datetime] | None:
        match identity:
            case NodeRole():
                return self._fetch_of_node(identity)
            case WebIdentity():
                form = _assume_role(identity)
                response = self._client.fetch("POST", f"{identity.endpoint}/", _FORM, content=form)
                return _parse_sts(_granted(response, identity))
            case PodIdentity():
                headers = {"Authorization": _token(identity.token_file)} if identity.token_file else {}
                response = self._client.fetch("GET", identity.url, headers)
                return _parse_agent(_granted(response, identity), "AWS_CONTAINER_CREDENTIALS_FULL_URI")

    def _fetch_of_node(self, node: NodeRole) -> tuple[Keys, datetime] | None:
        """Fetch the keys of the node's role. Without any, requests are anonymous, as many buckets are public."""
        try:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            token = self._fetch_from_node("PUT", f"{node.url}/latest/api/token", lifetime)
            session = {"X-aws-ec2-metadata-token": token}
            role = self._fetch_from_node("GET", f"{node.url}{_NODE_KEYS}", session)
            keys = self._fetch_from_node("GET", f"{node.url}{_NODE_KEYS}{role}", session)
            fetched = _parse_agent(keys.encode(), "AWS_EC2_METADATA_SERVICE_ENDPOINT")
        except InitializerError as error:
            if self._fetched:
                raise
            self._identity = AnonymousAws(f"no keys are given, nor by the node: {str(error).partition(';')[0]}")
            return None
        self._identity = replace(node, name=role)
        return fetched

    def _fetch_from_node(self, method: str, url: str, headers: Mapping[str, str]) -> str:
        response = self._client.fetch(method, url, headers)
        if response.status != 200:
            raise AccessDeniedError(
                f"{url} responds with {response.status}; give the node a role, or AWS_ACCESS_KEY_ID"
            )
        return response.body.decode(errors="replace").strip()


def _assume_role(identity: WebIdentity) -> bytes:
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": identity.role,
        "RoleSessionName": identity.session,
        "WebIdentityToken": _token(identity.token_file),
    }
    return urlencode(form).encode()


def _token(path: str) -> str:
    """Read the token file, each time anew, as the kubelet renews it."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise AccessDeniedError(
            f"the token {path} cannot be read ({error.strerror}); see that the service account's token is mounted"
        ) from None


def _granted(response: WholeResponse, identity: AwsIdentity) -> bytes:
    if response.status != 200:
        why = " ".join(response.body.decode(errors="replace").split())[:300]
        raise AccessDeniedError(
            f"no keys for {identity}: {response.status} {why}; correct the role and its trust policy"
        )
    return response.body


def _parse_sts(content: bytes) -> tuple[Keys, datetime]:
    try:
        fields = ElementTree.fromstring(content).iterfind(".//{*}Credentials/*")  # noqa: S314 - expat bounds entities
        return _temporary({field.tag.rpartition("}")[2]: field.text for field in fields}, "SessionToken")
    except (ElementTree.ParseError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _malformed("STS", error, "AWS_ENDPOINT_URL_STS") from None


def _parse_agent(content: bytes, variable: str) -> tuple[Keys, datetime]:
    try:
        return _temporary(json.loads(content), "Token")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _malformed("the credentials' agent", error, variable) from None


def _temporary(fields: Mapping[str, str | None], token: str) -> tuple[Keys, datetime]:
    keys = Keys(*(str(fields[name]) for name in ("AccessKeyId", "SecretAccessKey", token)))
    expires = datetime.fromisoformat(str(fields["Expiration"]))
    if expires.tzinfo is None:
        raise ValueError(f"{expires} has no time zone")
    return keys, expires


def _malformed(who: str, error: Exception, variable: str) -> UnexpectedResponseError:
    return UnexpectedResponseError(f"the response of {who} is malformed ({error!r}); correct {variable}")
