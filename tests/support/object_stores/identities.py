"""Stand-ins for the cloud's services that hand out credentials, and the guards that ask for what they handed out.

Each is what a ``proxy`` decides: a service answers everything itself, a guard refuses or lets pass. No service checks
less than the real one does: a wrong role, token or signature is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.object_stores.proxy import Answer, Decide, Request, Without
from tests.support.object_stores.versitygw import Keys

SESSION = "a-session-token"
ACCESS_TOKEN = "an-access-token"
_EXPIRES = "2099-01-01T00:00:00Z"


def security_token_service(role: str, identity: str, keys: Keys) -> Decide:
    """STS's AssumeRoleWithWebIdentity: the keys for the role and the token of a service account."""
    wanted = {"Action": "AssumeRoleWithWebIdentity", "RoleArn": role, "WebIdentityToken": identity}

    def decide(request: Request) -> Answer:
        given = _fields(request)
        if {name: given.get(name) for name in wanted} != wanted:
            return Answer(403, _STS_REFUSAL)
        return Answer(200, _STS_ANSWER.format(keys=keys, session=SESSION, expires=_EXPIRES).encode())

    return decide


def pod_identity_agent(token: str, keys: Keys) -> Decide:
    """EKS's agent on the node: the keys for the token that the pod has in a file."""
    answer = {"AccessKeyId": keys.access, "SecretAccessKey": keys.secret, "Token": SESSION, "Expiration": _EXPIRES}
    return lambda request: _json(answer) if request.headers.get("authorization") == token else Answer(401)


def instance_metadata(role: str, keys: Keys) -> Decide:
    """EC2's, in its second version: a token for who puts, and keys of the instance's role for who has the token."""
    listing = "/latest/meta-data/iam/security-credentials/"
    answer = {"Code": "Success", "AccessKeyId": keys.access, "SecretAccessKey": keys.secret, "Token": SESSION,
              "Expiration": _EXPIRES}  # fmt: skip
    answers = {listing: Answer(200, role.encode()), f"{listing}{role}": _json(answer)}

    def decide(request: Request) -> Answer:
        if (request.method, request.target) == ("PUT", "/latest/api/token"):
            lives = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdecimal()
            return Answer(200, ACCESS_TOKEN.encode()) if lives else Answer(400)
        if request.headers.get("x-aws-ec2-metadata-token") != ACCESS_TOKEN:
            return Answer(401)
        return answers.get(request.target, Answer(404))

    return decide


def metadata_server(email: str) -> Decide:
    """GCE's, as workload identity answers it: the access token of the pod's account."""
    accounts = "/computeMetadata/v1/instance/service-accounts"
    answers: dict[str, Answer] = {
        f"{accounts}/default/token": _json(_ISSUED),
        f"{accounts}/default/email": Answer(200, email.encode()),
        f"{accounts}/{email}/token": _json(_ISSUED),
        f"{accounts}/default/": _json({"email": email, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}),
        "/": Answer(200, b"computeMetadata/\n"),
    }

    def decide(request: Request) -> Answer:
        if request.headers.get("metadata-flavor") != "Google":
            return Answer(403)
        answer = answers.get(urlsplit(request.target).path, Answer(404))
        return Answer(answer.status, answer.body, {**answer.headers, "Metadata-Flavor": "Google"})

    return decide


@dataclass(frozen=True)
class ServiceAccount:
    """A GCS service account: the JSON file that its user has, and the key that the cloud knows of it."""

    email: str
    file: Path
    public_key: rsa.RSAPublicKey


def service_account(file: Path, token_uri: str, email: str = "models@project.example.com") -> ServiceAccount:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    content = {"type": "service_account", "project_id": "project", "private_key_id": "1", "client_id": "1",
               "private_key": pem.decode(), "client_email": email, "token_uri": token_uri}  # fmt: skip
    file.write_text(json.dumps(content))
    return ServiceAccount(email, file, key.public_key())


def token_endpoint(account: ServiceAccount) -> Decide:
    """Google's OAuth token endpoint: an access token for an assertion that the account has signed."""

    def decide(request: Request) -> Answer:
        assertion = _fields(request).get("assertion", "")
        try:
            claims = jwt.decode(assertion, account.public_key, algorithms=["RS256"], audience=_GOOGLE)
        except jwt.InvalidTokenError:
            return _json({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400)
        return _json(_ISSUED) if claims["iss"] == account.email else _json({"error": "invalid_grant"}, 400)

    return decide


def azure_tokens(tenant: str, wanted: Mapping[str, str]) -> Decide:
    """Entra ID's token endpoint of a tenant: an access token for who sends these fields."""

    def decide(request: Request) -> Answer:
        fields = {**_fields(request), "path": urlsplit(request.target).path}
        expected = {**wanted, "path": f"/{tenant}/oauth2/v2.0/token", "grant_type": "client_credentials"}
        if {name: fields.get(name) for name in expected} != expected:
            refusal = {"error": "invalid_client", "error_description": "AADSTS700213: No matching federated identity."}
            return _json(refusal, 401)
        return _json(_ISSUED)

    return decide


def bearer(token: str = ACCESS_TOKEN) -> Decide:
    """A guard before a store: only requests with the token that the cloud has issued pass."""
    return lambda request: None if request.headers.get("authorization") == f"Bearer {token}" else Answer(401)


def in_session(keys: Keys) -> Decide:
    """A guard before public buckets, as versitygw has no sessions: only requests pass that are signed with temporary
    keys, their session token included."""

    def decide(request: Request) -> Answer | Without:
        if request.headers.get("x-amz-security-token") != SESSION:
            return _s3_refusal("InvalidToken")
        if not _is_signed(request, keys):
            return _s3_refusal("SignatureDoesNotMatch")
        return Without(frozenset({"authorization", "x-amz-security-token"}))

    return decide


def _is_signed(request: Request, keys: Keys) -> bool:
    """By AWS Signature Version 4, with the session token among what is signed."""
    fields = dict(field.split("=", 1) for field in request.headers["authorization"].split(" ", 1)[1].split(", "))
    access, _, scope = fields["Credential"].partition("/")
    names, (path, _, query) = fields["SignedHeaders"], request.target.partition("?")
    headers = "".join(f"{name}:{request.headers[name]}\n" for name in names.split(";"))
    lines = [request.method, path, "&".join(sorted(query.split("&"))), headers, names]
    canonical = "\n".join([*lines, request.headers["x-amz-content-sha256"]]).encode()
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, hashlib.sha256(canonical).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.digest(key, part.encode(), "sha256")
    return access == keys.access and "x-amz-security-token" in names and key.hex() == fields["Signature"]


def _s3_refusal(code: str) -> Answer:
    return Answer(403, f"<Error><Code>{code}</Code><Message>Refused.</Message></Error>".encode())


def _fields(request: Request) -> Mapping[str, str]:
    """Of the query, or of a form."""
    return {
        name: values[0] for name, values in parse_qs(request.body.decode() or urlsplit(request.target).query).items()
    }


def _json(content: Mapping[str, Any], status: int = 200) -> Answer:
    return Answer(status, json.dumps(content).encode(), {"Content-Type": "application/json"})


_GOOGLE = "https://oauth2.googleapis.com/token"  # for whom assertions are made, wherever they are sent
_ISSUED = {"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"}
_STS_REFUSAL = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
<Type>Sender</Type><Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message>
</Error></ErrorResponse>"""
_STS_ANSWER = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>{keys.access}</AccessKeyId><SecretAccessKey>{keys.secret}</SecretAccessKey>
<SessionToken>{session}</SessionToken><Expiration>{expires}</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
