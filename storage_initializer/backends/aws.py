"""Who asks S3, from the environment that the operator and AWS give a pod, and the keys that this comes to.

In the order of AWS's own tools, without the files of a person's home (``AWS_PROFILE``), which no pod has.
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

from storage_initializer.backends.client import Answer, Client
from storage_initializer.backends.sigv4 import Keys
from storage_initializer.errors import AccessDeniedError, InitializerError, UnexpectedAnswerError
from storage_initializer.plan import Patience

Now = Callable[[], datetime]

# Of its life, what is left of a key when the next one is fetched.
_MARGIN = timedelta(minutes=5)
_AGENT_OF_ECS = "http://169.254.170.2"
_METADATA_SERVICE = "http://169.254.169.254"
_NODE_KEYS = "/latest/meta-data/iam/security-credentials/"
# What is on the node answers at once, or not at all.
_NEAR_S = 1.0


@dataclass(frozen=True)
class Anonymous:
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
    """An agent on the node gives keys, and knows for which role."""

    url: str
    token_file: str

    def __str__(self) -> str:
        return f"pod identity ({self.url})"


@dataclass(frozen=True)
class NodeRole:
    """Whatever role the EC2 instance has, if this is one and it lets pods ask; found by asking (IMDSv2)."""

    url: str
    name: str = ""

    def __str__(self) -> str:
        return f"the node's role {self.name}".rstrip()


Identity = Anonymous | AccessKey | WebIdentity | PodIdentity | NodeRole


def identity_of(environment: Mapping[str, str], region: str) -> Identity:
    """The first that is complete: asked to be anonymous, keys, a role, an agent; else the node's. Pure."""
    if is_true(environment.get("awsAnonymousCredential", "")):
        return Anonymous()
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
        return Anonymous()
    return NodeRole((environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA_SERVICE).rstrip("/"))


def patience_with(identity: Identity, patience: Patience) -> Patience:
    return replace(patience, connect_s=_NEAR_S, read_s=_NEAR_S) if isinstance(identity, NodeRole) else patience


def domain_of(region: str) -> str:
    """Where Amazon's own endpoints of a region are; China's are apart."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes")


class KeyRing:
    """The keys of an identity, fetched where they have to be and again before they expire."""

    def __init__(self, identity: Identity, client: Client, now: Now) -> None:
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
        """None where requests are not signed."""
        with self._lock:
            match self._identity:
                case Anonymous():
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
                answer = self._client.ask("POST", f"{identity.endpoint}/", *_assume_role(identity))
                return _parse_sts(_granted(answer, identity))
            case PodIdentity():
                headers = {"Authorization": _token(identity.token_file)} if identity.token_file else {}
                answer = self._client.ask("GET", identity.url, headers)
                return _parse_agent(_granted(answer, identity), "AWS_CONTAINER_CREDENTIALS_FULL_URI")

    def _fetch_of_node(self, node: NodeRole) -> tuple[Keys, datetime] | None:
        """Who has no keys is anonymous, unless there were keys before: many a bucket is open to all."""
        try:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            token = self._ask_node("PUT", f"{node.url}/latest/api/token", lifetime)
            session = {"X-aws-ec2-metadata-token": token}
            role = self._ask_node("GET", f"{node.url}{_NODE_KEYS}", session)
            keys = self._ask_node("GET", f"{node.url}{_NODE_KEYS}{role}", session)
            fetched = _parse_agent(keys.encode(), "AWS_EC2_METADATA_SERVICE_ENDPOINT")
        except InitializerError as error:
            if self._fetched:
                raise
            self._identity = Anonymous(f"no keys are given, nor by the node: {str(error).partition(';')[0]}")
            return None
        self._identity = replace(node, name=role)
        return fetched

    def _ask_node(self, method: str, url: str, headers: Mapping[str, str]) -> str:
        answer = self._client.ask(method, url, headers)
        if answer.status != 200:
            raise AccessDeniedError(f"{url} answers {answer.status}; give the node a role, or AWS_ACCESS_KEY_ID")
        return answer.body.decode(errors="replace").strip()


def _assume_role(identity: WebIdentity) -> tuple[dict[str, str], bytes]:
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": identity.role,
        "RoleSessionName": identity.session,
        "WebIdentityToken": _token(identity.token_file),
    }
    return {"Content-Type": "application/x-www-form-urlencoded"}, urlencode(form).encode()


def _token(path: str) -> str:
    """Read each time: the kubelet renews it."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise AccessDeniedError(
            f"the token {path} cannot be read ({error.strerror}); see that the service account's token is mounted"
        ) from None


def _granted(answer: Answer, identity: Identity) -> bytes:
    if answer.status != 200:
        why = " ".join(answer.body.decode(errors="replace").split())[:300]
        raise AccessDeniedError(f"no keys for {identity}: {answer.status} {why}; correct the role and its trust policy")
    return answer.body


def _parse_sts(content: bytes) -> tuple[Keys, datetime]:
    try:
        fields = ElementTree.fromstring(content).iterfind(".//{*}Credentials/*")  # noqa: S314 - expat bounds entities
        return _temporary({field.tag.rpartition("}")[2]: field.text for field in fields}, "SessionToken")
    except (ElementTree.ParseError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _nonsense("STS", error, "AWS_ENDPOINT_URL_STS") from None


def _parse_agent(content: bytes, variable: str) -> tuple[Keys, datetime]:
    try:
        return _temporary(json.loads(content), "Token")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _nonsense("the credentials' agent", error, variable) from None


def _temporary(fields: Mapping[str, str | None], token: str) -> tuple[Keys, datetime]:
    keys = Keys(*(str(fields[name]) for name in ("AccessKeyId", "SecretAccessKey", token)))
    expires = datetime.fromisoformat(str(fields["Expiration"]))
    if expires.tzinfo is None:
        raise ValueError(f"{expires} has no time zone")
    return keys, expires


def _nonsense(who: str, error: Exception, variable: str) -> UnexpectedAnswerError:
    return UnexpectedAnswerError(f"the answer of {who} makes no sense ({error!r}); correct {variable}")
