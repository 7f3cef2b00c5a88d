"""Who asks Google, from the environment, and the tokens that this comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from storage_initializer.backends.client import Answer, Client
from storage_initializer.errors import AccessDeniedError, InitializerError, UnreachableError

Now = Callable[[], datetime]

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_METADATA_HOST = "169.254.169.254"
_ACCOUNT_PATH = "/computeMetadata/v1/instance/service-accounts/default"
_FLAVOR = {"Metadata-Flavor": "Google"}
_MARGIN = timedelta(minutes=5)


@dataclass(frozen=True)
class Anonymous:
    def __str__(self) -> str:
        return "anonymous"


@dataclass(frozen=True)
class CredentialsFile:
    """Of a service account, a user, or an identity federated from elsewhere."""

    path: str

    def __str__(self) -> str:
        return f"the account of {self.path}"


@dataclass(frozen=True)
class MetadataServer:
    """Workload identity: the node answers for the pod's service account. ``sure`` is that there is such a server."""

    host: str
    sure: bool

    def __str__(self) -> str:
        return f"the service account of the metadata server {self.host}"


Identity = Anonymous | CredentialsFile | MetadataServer


def identity_of(environment: Mapping[str, str]) -> Identity:
    """Pure: whether there is a metadata server is found by asking it."""
    if path := environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return CredentialsFile(path)
    if host := environment.get("GCE_METADATA_HOST"):
        return MetadataServer(host, sure=True)
    if environment.get("STORAGE_EMULATOR_HOST"):
        return Anonymous()
    return MetadataServer(_METADATA_HOST, sure=False)


class TokenRing:
    """The token of an identity, fetched again before it expires."""

    def __init__(self, identity: Identity, client: Client, now: Now) -> None:
        self._identity = identity
        self._client = client
        self._now = now
        self._lock = Lock()
        self._file: Any = None
        self._email = ""
        self._fetched: tuple[str, datetime] | None = None

    def __str__(self) -> str:
        return f"service account {self._email}" if self._email else str(self._identity)

    def reopen(self) -> None:
        self._client.reopen()

    def close(self) -> None:
        self._client.close()

    def headers(self) -> Mapping[str, str]:
        with self._lock:
            token = self._token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _token(self) -> str:
        """Empty for an anonymous one."""
        match self._identity:
            case CredentialsFile(path):
                return self._token_of_file(path)
            case MetadataServer() as server:
                return self._token_of_node(server)
        return ""

    def _token_of_file(self, path: str) -> str:
        from google.auth.exceptions import GoogleAuthError

        try:
            if self._file is None:
                self._file = _load(path)
                self._email = getattr(self._file, "service_account_email", "")
            if not self._file.valid:
                self._file.refresh(_transport(self._client))
        except (GoogleAuthError, OSError, ValueError) as error:
            # The library's errors carry the whole answer behind what they say.
            why = error.args[0] if isinstance(error, GoogleAuthError) and error.args else error
            raise AccessDeniedError(
                f"no token for {self} ({' '.join(str(why).split())[:300]}); correct the secret with the JSON key"
            ) from None
        return str(self._file.token)

    def _token_of_node(self, server: MetadataServer) -> str:
        if not self._fetched or self._fetched[1] - self._now() < _MARGIN:
            try:
                answer = self._client.ask("GET", f"http://{server.host}{_ACCOUNT_PATH}/token", _FLAVOR)
            except UnreachableError:
                if server.sure:
                    raise
                answer = None
            # Other clouds have a server at the same address.
            if answer is None or not (server.sure or answer.headers.get("Metadata-Flavor") == "Google"):
                self._identity = Anonymous()
                return ""
            values = _granted(answer, server)
            email = self._client.ask("GET", f"http://{server.host}{_ACCOUNT_PATH}/email", _FLAVOR)
            self._email = email.body.decode() if email.status == 200 else ""
            self._fetched = (values["access_token"], self._now() + timedelta(seconds=values["expires_in"]))
        return self._fetched[0]


def _granted(answer: Answer, identity: Identity) -> dict[str, Any]:
    values = _parse(answer.body)
    told = isinstance(values.get("access_token"), str) and isinstance(values.get("expires_in"), int)
    if answer.status != 200 or not told:
        raise AccessDeniedError(
            f"no token for {identity}: {answer.status}; bind the pod's service account to a Google service account"
        )
    return values


def _parse(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _load(path: str) -> Any:
    """By its type: the library's one way for all of them is deprecated."""
    from google.auth import identity_pool
    from google.oauth2 import credentials, service_account

    document = _parse(Path(path).read_bytes())
    match document.get("type"):
        case "service_account":
            return service_account.Credentials.from_service_account_info(document, scopes=[_SCOPE])  # type: ignore[no-untyped-call]
        case "external_account":
            return identity_pool.Credentials.from_info(document, scopes=[_SCOPE])  # type: ignore[no-untyped-call]
        case "authorized_user":
            return credentials.Credentials.from_authorized_user_info(document, scopes=[_SCOPE])  # type: ignore[no-untyped-call]
    raise ValueError("it is not the JSON key of an account")


def _transport(client: Client) -> Callable[..., Any]:
    """Google's library sends its requests over our client: with our trust, and no library for HTTP beside it."""
    from google.auth.exceptions import TransportError

    @dataclass(frozen=True)
    class Response:
        status: int
        headers: Mapping[str, str]
        data: bytes

    def send(
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ARG001 - the client has its own
        **_: object,
    ) -> Response:
        try:
            answer = client.ask(method, url, headers, body)
        except InitializerError as error:
            raise TransportError(str(error)) from error  # type: ignore[no-untyped-call]
        return Response(answer.status, answer.headers, answer.body)

    return send
