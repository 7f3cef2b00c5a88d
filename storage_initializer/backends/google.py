"""Google's identities, from the environment, and their tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from storage_initializer.backends.client import Client, WholeResponse
from storage_initializer.errors import AccessDeniedError, InitializerError, UnreachableError
from storage_initializer.uri import checked_url

if TYPE_CHECKING:
    from obstore.store import GCSCredential

Now = Callable[[], datetime]

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_METADATA_HOST = "169.254.169.254"
_ACCOUNT_PATH = "/computeMetadata/v1/instance/service-accounts/default"
_FLAVOR = {"Metadata-Flavor": "Google"}
_MARGIN = timedelta(minutes=5)


@dataclass(frozen=True)
class GoogleIdentity:
    """Who reads, ``text`` for the log: the account of a file of credentials, that of the metadata server, or nobody.

    ``path`` is the file, of a service account, a user, or a federated identity. ``host`` is the node's metadata server,
    which has tokens of the pod's service account (workload identity); ``sure`` is whether the environment says that
    there is one.
    """

    text: str
    path: str = ""
    host: str = ""
    sure: bool = False


ANONYMOUS = GoogleIdentity("anonymous")


def google_identity(environment: Mapping[str, str]) -> GoogleIdentity:
    """Return the identity to try; raise UsageError for an invalid host.

    Pure: whether there is a metadata server is found later, by a request.
    """
    if path := environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return GoogleIdentity(f"the account of {path}", path=path)
    if host := environment.get("GCE_METADATA_HOST"):
        checked_url("GCE_METADATA_HOST", f"http://{host}", "HOST[:PORT] alone")
        return metadata_server(host, sure=True)
    return ANONYMOUS if environment.get("STORAGE_EMULATOR_HOST") else metadata_server(_METADATA_HOST, sure=False)


def metadata_server(host: str, *, sure: bool) -> GoogleIdentity:
    return GoogleIdentity(f"the service account of the metadata server {host}", host=host, sure=sure)


class TokenProvider:
    """The tokens of an identity, as obstore asks for them. ``failure`` is why there was none at the last time."""

    def __init__(self, identity: GoogleIdentity, client: Client, now: Now) -> None:
        self.failure: InitializerError | None = None
        self._identity = identity
        self._client = client
        self._now = now
        self._lock = Lock()
        self._file: Any = None
        self._email = ""
        self._fetched: GCSCredential | None = None
        self._fetched_until = datetime.min.replace(tzinfo=UTC)

    def __str__(self) -> str:
        return f"service account {self._email}" if self._email else self._identity.text

    def __call__(self) -> GCSCredential:
        try:
            self.failure = None
            return self.current() or {"token": "", "expires_at": None}
        except InitializerError as error:
            self.failure = error
            raise

    def current(self) -> GCSCredential | None:
        """Return the token to use now; None for an anonymous identity."""
        with self._lock:
            if self._identity.path:
                return self._token_of_file(self._identity.path)
            return self._token_of_node(self._identity) if self._identity.host else None

    def _token_of_file(self, path: str) -> GCSCredential:
        from google.auth.exceptions import GoogleAuthError

        try:
            if self._file is None:
                self._file = _load(path)
                self._email = getattr(self._file, "service_account_email", "")
            if not self._file.valid:
                self._file.refresh(_transport(self._client))
        except (GoogleAuthError, OSError, ValueError) as error:
            # The second argument of the library's errors is the whole response.
            why = error.args[0] if isinstance(error, GoogleAuthError) and error.args else error
            raise AccessDeniedError(
                f"no token for {self} ({' '.join(str(why).split())[:300]}); correct the secret with the JSON key"
            ) from None
        expires = self._file.expiry
        return {"token": str(self._file.token), "expires_at": expires and expires.replace(tzinfo=UTC)}

    def _token_of_node(self, server: GoogleIdentity) -> GCSCredential | None:
        if self._fetched and self._fetched_until - self._now() > _MARGIN:
            return self._fetched
        try:
            response = self._client.fetch("GET", f"http://{server.host}{_ACCOUNT_PATH}/token", _FLAVOR)
        except UnreachableError:
            if server.sure:
                raise
            response = None
        # Other clouds have a server at the same address.
        if response is None or not (server.sure or response.headers.get("Metadata-Flavor") == "Google"):
            self._identity = ANONYMOUS
            return None
        values = _granted(response, server)
        email = self._client.fetch("GET", f"http://{server.host}{_ACCOUNT_PATH}/email", _FLAVOR)
        self._email = email.body.decode() if email.status == 200 else ""
        self._identity = replace(server, sure=True)
        self._fetched_until = self._now() + timedelta(seconds=values["expires_in"])
        self._fetched = {"token": values["access_token"], "expires_at": self._fetched_until}
        return self._fetched


def _granted(response: WholeResponse, identity: GoogleIdentity) -> dict[str, Any]:
    values = _parse(response.body)
    is_token = isinstance(values.get("access_token"), str) and isinstance(values.get("expires_in"), int)
    if response.status != 200 or not is_token:
        raise AccessDeniedError(
            f"no token for {identity.text}: {response.status}; "
            "bind the pod's service account to a Google service account"
        )
    return values


def _parse(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _load(path: str) -> Any:
    """Load a credentials file by its type: the library's function for all types is deprecated."""
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
    """Return a transport for Google's library that uses our client, so that it has our trust and timeouts."""
    from google.auth.exceptions import TransportError

    @dataclass(frozen=True)
    class AuthResponse:
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
    ) -> AuthResponse:
        try:
            response = client.fetch(method, url, headers, content=body)
        except InitializerError as error:
            raise TransportError(str(error)) from error  # type: ignore[no-untyped-call]
        return AuthResponse(response.status, response.headers, response.body)

    return send
