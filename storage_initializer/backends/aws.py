"""AWS identities, from the environment that the operator and AWS give a pod. obstore fetches and renews their keys.

The order is that of AWS's own tools, without the files of a home directory (``AWS_PROFILE``), which no pod has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from storage_initializer.backends.client import Client
from storage_initializer.errors import AccessDeniedError, InitializerError

_METADATA_SERVICE = "http://169.254.169.254"
_NODE_ROLE = "/latest/meta-data/iam/security-credentials/"


@dataclass(frozen=True)
class AnonymousAws:
    why: str = ""

    def __str__(self) -> str:
        return f"anonymous ({self.why})" if self.why else "anonymous"


@dataclass(frozen=True)
class AccessKey:
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"access key {self.access_key}"


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
        return AccessKey(access_key, secret_key, environment.get("AWS_SESSION_TOKEN", ""))
    role, token_file = environment.get("AWS_ROLE_ARN"), environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if role and token_file:
        session = environment.get("AWS_ROLE_SESSION_NAME") or "storage-initializer"
        endpoint = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{domain_of(region)}"
        return WebIdentity(role, token_file, session, endpoint.rstrip("/"))
    agent = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    agent_token_file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if agent and agent_token_file:
        return PodIdentity(agent, agent_token_file)
    if is_true(environment.get("AWS_EC2_METADATA_DISABLED", "")):
        return AnonymousAws()
    return NodeRole((environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA_SERVICE).rstrip("/"))


def found_on_node(node: NodeRole, client: Client) -> NodeRole | AnonymousAws:
    """Ask the node for the name of its role. Without one, requests are anonymous, as many buckets are public."""
    try:
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = _fetch_from_node(client, "PUT", f"{node.url}/latest/api/token", lifetime)
        name = _fetch_from_node(client, "GET", f"{node.url}{_NODE_ROLE}", {"X-aws-ec2-metadata-token": token})
    except InitializerError as error:
        return AnonymousAws(f"no keys are given, nor by the node: {str(error).partition(';')[0]}")
    return replace(node, name=name)


def identity_config(identity: AwsIdentity) -> Mapping[str, str | bool]:
    """Return how obstore is told the identity; keys that are given are not among it."""
    match identity:
        case AnonymousAws():
            return {"skip_signature": True}
        case WebIdentity():
            return {
                "role_arn": identity.role,
                "web_identity_token_file": identity.token_file,
                "role_session_name": identity.session,
                # obstore's own types have another name, which it does not know.
                "aws_endpoint_url_sts": identity.endpoint,
            }
        case PodIdentity():
            return {
                "container_credentials_full_uri": identity.url,
                "container_authorization_token_file": identity.token_file,
            }
        case NodeRole():
            return {"metadata_endpoint": identity.url}
    return {}


def domain_of(region: str) -> str:
    """Return the domain of Amazon's endpoints for a region; China has its own."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes")


def _fetch_from_node(client: Client, method: str, url: str, headers: Mapping[str, str]) -> str:
    response = client.fetch(method, url, headers)
    if response.status != 200:
        raise AccessDeniedError(f"{url} responds with {response.status}; give the node a role, or AWS_ACCESS_KEY_ID")
    return response.body.decode(errors="replace").strip()
