"""Who asks S3, from the environment that the operator and AWS give a pod, and the keys that this comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from urllib.parse import urlencode
from xml.etree import ElementTree

from storage_initializer.backends.client import Answer, Client
from storage_initializer.backends.sigv4 import Keys
from storage_initializer.errors import AccessDeniedError, UnexpectedAnswerError

Now = Callable[[], datetime]

# Of its life, what is left of a key when the next one is fetched.
_MARGIN = timedelta(minutes=5)


@dataclass(frozen=True)
class Anonymous:
    def __str__(self) -> str:
        return "anonymous"


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


Identity = Anonymous | AccessKey | WebIdentity | PodIdentity


def identity_of(environment: Mapping[str, str], region: str) -> Identity:
    """The first that is complete: asked to be anonymous, keys, a role, an agent; else anonymous. Pure."""
    if is_true(environment.get("awsAnonymousCredential", "")):
        return Anonymous()
    access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        return AccessKey(Keys(access_key, secret_key, environment.get("AWS_SESSION_TOKEN", "")))
    role, token_file = environment.get("AWS_ROLE_ARN"), environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if role and token_file:
        session = environment.get("AWS_ROLE_SESSION_NAME") or "storage-initializer"
        endpoint = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
        return WebIdentity(role, token_file, session, endpoint.rstrip("/"))
    if agent := environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return PodIdentity(agent, environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""))
    return Anonymous()


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

    def keys(self) -> Keys | None:
        """None where requests are not signed."""
        match self._identity:
            case Anonymous():
                return None
            case AccessKey(keys):
                return keys
        with self._lock:
            if not self._fetched or self._fetched[1] - self._now() < _MARGIN:
                self._fetched = self._fetch(self._identity)
            return self._fetched[0]

    def _fetch(self, identity: WebIdentity | PodIdentity) -> tuple[Keys, datetime]:
        if isinstance(identity, WebIdentity):
            answer = self._client.ask("POST", f"{identity.endpoint}/", *_assume_role(identity))
            return _parse_sts(_granted(answer, identity))
        headers = {"Authorization": _token(identity.token_file)} if identity.token_file else {}
        answer = self._client.ask("GET", identity.url, headers)
        return _parse_agent(_granted(answer, identity))


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
    except (ElementTree.ParseError, KeyError, TypeError, ValueError) as error:
        raise _nonsense("STS", error, "AWS_ENDPOINT_URL_STS") from None


def _parse_agent(content: bytes) -> tuple[Keys, datetime]:
    try:
        return _temporary(json.loads(content), "Token")
    except (KeyError, TypeError, ValueError) as error:
        raise _nonsense("the credentials' agent", error, "AWS_CONTAINER_CREDENTIALS_FULL_URI") from None


def _temporary(fields: Mapping[str, str | None], token: str) -> tuple[Keys, datetime]:
    keys = Keys(*(str(fields[name]) for name in ("AccessKeyId", "SecretAccessKey", token)))
    return keys, datetime.fromisoformat(str(fields["Expiration"]))


def _nonsense(who: str, error: Exception, variable: str) -> UnexpectedAnswerError:
    return UnexpectedAnswerError(f"the answer of {who} makes no sense ({error!r}); correct {variable}")
