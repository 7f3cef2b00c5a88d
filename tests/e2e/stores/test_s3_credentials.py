"""Every way in which KServe's users give S3 credentials, against stores that check each signature."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store, environment_of
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import identities, tls
from tests.support.object_stores.proxy import Answer, Proxy, proxy
from tests.support.object_stores.versitygw import OWNER, REGION, STRANGER, Keys, S3Server
from tests.support.ports import free_port

FILES = {"config.json": b"{}"}
TEMPORARY = Keys("ASIATEMPORARY", "temporary-secret")  # what the stand-ins hand out
ROLE = "arn:aws:iam::123456789012:role/models"


@pytest.fixture
def uri(bucket: Store) -> str:
    return bucket.fill({f"model/{name}": content for name, content in FILES.items()}) + "/model"


@pytest.fixture(scope="module")
def public_uri(s3: S3Server) -> str:
    s3.create_bucket("public", public=True)
    s3.put("public", "model/config.json", FILES["config.json"])
    return "s3://public/model"


@pytest.fixture
def guarded(s3: S3Server) -> Iterator[Proxy]:
    """S3 for those in a session."""
    with proxy(s3.url, identities.in_session(TEMPORARY)) as guard:
        yield guard


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("who-i-am")
    return tmp_path / "token"


def without_keys(url: str) -> dict[str, str]:
    """And with no node that could give some, whatever machine this is."""
    given = {name: value for name, value in environment_of("s3", url).items() if "ACCESS" not in name}
    return {**given, "AWS_EC2_METADATA_DISABLED": "true"}


def on_a_node(url: str, metadata_service: str) -> dict[str, str]:
    return {
        **without_keys(url),
        "AWS_EC2_METADATA_DISABLED": "false",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata_service,
    }


# --- keys --------------------------------------------------------------------------------------------


def test_the_log_names_who_asks_where_and_no_secret(
    initialize: Initialize, s3: S3Server, uri: str, models: Path
) -> None:
    outcome = initialize(uri, models, **environment_of("s3", s3.url))

    assert outcome.log[1] == f"as access key {OWNER.access}, endpoint {s3.url}, region {REGION}"
    assert OWNER.secret not in "\n".join(outcome.log)
    assert read_tree(models) == FILES


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (Keys(OWNER.access, "wrong"), ": the secret key does not belong to it; correct it in the secret"),
        (Keys("unknown", "wrong"), ": the store does not know this key; correct it in the secret"),
        (
            STRANGER,
            " (Access Denied); allow it s3:GetObject and s3:ListBucket there, or use other credentials",
        ),
    ],
    ids=["a wrong secret", "an unknown key", "a key that is allowed nothing"],
)
def test_a_refusal_names_the_identity(
    initialize: Initialize, s3: S3Server, uri: str, models: Path, keys: Keys, complaint: str
) -> None:
    outcome = initialize(uri, models, **environment_of("s3", s3.url, keys))

    bucket = uri.split("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: the bucket {bucket} may not be read as access key {keys.access}{complaint}",
    )
    assert list(models.iterdir()) == []


def test_another_region_is_named(initialize: Initialize, s3: S3Server, uri: str, models: Path) -> None:
    outcome = initialize(uri, models, **{**environment_of("s3", s3.url), "AWS_DEFAULT_REGION": "us-east-9"})

    bucket = uri.split("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        18,
        f"{uri}: the bucket {bucket} is in the region {REGION}, but us-east-9 was requested; "
        f"set the region {REGION} (annotation serving.kserve.io/s3-region, or region in the secret storage-config)",
    )


def test_another_region_that_amazon_does_not_name_is_another_one(initialize: Initialize, models: Path) -> None:
    """Its header, which names the region, is not to be seen."""
    elsewhere = Answer(301, b"<Error><Code>PermanentRedirect</Code></Error>", {"x-amz-bucket-region": "eu-west-1"})
    with proxy(None, lambda _: elsewhere) as amazon:
        outcome = initialize("s3://models/bert", models, **environment_of("s3", amazon.url))

    assert (outcome.exit_code, outcome.reason) == (
        18,
        f"s3://models/bert: the bucket models is in another region than {REGION}, which was requested; "
        "set its region (annotation serving.kserve.io/s3-region, or region in the secret storage-config)",
    )


def test_a_service_for_keys_that_is_overloaded_is_tried_again(
    initialize: Initialize,
    guarded: Proxy,
    certificate: tls.Certificate,
    public_uri: str,
    models: Path,
    token_file: Path,
) -> None:
    service = identities.security_token_service(ROLE, "who-i-am", TEMPORARY)
    first = iter([Answer(503)])
    with proxy(None, lambda request: next(first, None) or service(request), certificate) as between:
        environment = {
            **without_keys(guarded.url),
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file),
            "AWS_ENDPOINT_URL_STS": between.url,
            "AWS_CA_BUNDLE": str(certificate.authority),
        }
        outcome = initialize(public_uri, models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")


# --- anonymous ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_anonymous_reads_what_is_public_and_signs_nothing(
    initialize: Initialize, s3: S3Server, public_uri: str, models: Path, missing: str
) -> None:
    with proxy(s3.url) as between:
        environment = {**environment_of("s3", between.url), "awsAnonymousCredential": "true"}
        environment.pop(missing, None)
        outcome = initialize(public_uri, models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES
    assert [request for request in between.requests if "authorization" in request.headers] == []


def test_anonymous_is_named_where_it_is_refused(initialize: Initialize, s3: S3Server, uri: str, models: Path) -> None:
    outcome = initialize(uri, models, **without_keys(s3.url))

    bucket = uri.split("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: the bucket {bucket} may not be read as anonymous (Access Denied); "
        "allow it s3:GetObject and s3:ListBucket there, or use other credentials",
    )


# --- temporary keys ----------------------------------------------------------------------------------


def test_temporary_keys_are_signed_with_their_session(
    initialize: Initialize, guarded: Proxy, public_uri: str, models: Path
) -> None:
    environment = environment_of("s3", guarded.url, TEMPORARY)

    outcome = initialize(public_uri, models, **environment, AWS_SESSION_TOKEN=identities.SESSION)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES


@pytest.mark.parametrize(
    ("keys", "session", "complaint"),
    [
        (TEMPORARY, "of yesterday", ": the session token has expired; renew it"),
        (
            Keys(TEMPORARY.access, "wrong"),
            identities.SESSION,
            ": the secret key does not belong to it; correct it in the secret",
        ),
    ],
    ids=["an old session", "a wrong secret"],
)
def test_temporary_keys_that_are_wrong_are_refused(
    initialize: Initialize, guarded: Proxy, public_uri: str, models: Path, keys: Keys, session: str, complaint: str
) -> None:
    environment = environment_of("s3", guarded.url, keys)

    outcome = initialize(public_uri, models, **environment, AWS_SESSION_TOKEN=session)

    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{public_uri}: the bucket public may not be read as access key {TEMPORARY.access}{complaint}",
    )


def test_a_role_is_assumed_with_the_token_of_the_service_account(
    initialize: Initialize,
    guarded: Proxy,
    certificate: tls.Certificate,
    public_uri: str,
    models: Path,
    token_file: Path,
) -> None:
    with proxy(None, identities.security_token_service(ROLE, "who-i-am", TEMPORARY), certificate) as service:
        environment = {
            **without_keys(guarded.url),
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file),
            "AWS_ENDPOINT_URL_STS": service.url,
            "AWS_CA_BUNDLE": str(certificate.authority),
        }
        outcome = initialize(public_uri, models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == (f"as role {ROLE} (web identity, {service.url}), endpoint {guarded.url}, region {REGION}")
    assert read_tree(models) == FILES


def test_a_role_that_may_not_be_assumed_is_named(
    initialize: Initialize,
    guarded: Proxy,
    certificate: tls.Certificate,
    public_uri: str,
    models: Path,
    token_file: Path,
) -> None:
    with proxy(None, identities.security_token_service(ROLE, "somebody-else", TEMPORARY), certificate) as service:
        environment = {
            **without_keys(guarded.url),
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file),
            "AWS_ENDPOINT_URL_STS": service.url,
            "AWS_CA_BUNDLE": str(certificate.authority),
        }
        outcome = initialize(public_uri, models, **environment)

    assert outcome.exit_code == 7
    assert outcome.reason.startswith(f"{public_uri}: no keys for role {ROLE} (web identity, {service.url}): 403 ")
    assert "Not authorized to perform sts:AssumeRoleWithWebIdentity" in outcome.reason
    assert "who-i-am" not in outcome.reason


def test_the_agent_of_the_node_gives_keys_for_the_pods_token(
    initialize: Initialize, guarded: Proxy, public_uri: str, models: Path, token_file: Path
) -> None:
    with proxy(None, identities.pod_identity_agent("who-i-am", TEMPORARY)) as agent:
        environment = {
            **without_keys(guarded.url),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token_file),
        }
        outcome = initialize(public_uri, models, **environment)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES


# --- the node ----------------------------------------------------------------------------------------


def test_a_node_gives_the_keys_of_its_role(
    initialize: Initialize, guarded: Proxy, public_uri: str, models: Path
) -> None:
    with proxy(None, identities.instance_metadata("workers", TEMPORARY)) as node:
        outcome = initialize(public_uri, models, **on_a_node(guarded.url, node.url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as the node's role workers, endpoint {guarded.url}, region {REGION}"
    assert read_tree(models) == FILES


@pytest.fixture(params=["silent", "closed", "another cloud's"])
def no_node(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A metadata service that gives no keys, and what is said about it."""
    match request.param:
        case "silent":  # as it is to a pod, which is one hop too far for its answers
            with socket.create_server(("127.0.0.1", 0)) as listener:
                host = f"127.0.0.1:{listener.getsockname()[1]}"
                yield f"http://{host}", f"{host} does not respond in time"
        case "closed":
            host = f"127.0.0.1:{free_port()}"
            yield f"http://{host}", f"{host} refuses connections"
        case _:
            with proxy(None, identities.metadata_server("models@project.example.com")) as other:
                yield other.url, f"{other.url}/latest/api/token responds with 403"


def test_without_a_nodes_keys_it_is_anonymous_and_says_why(
    initialize: Initialize, s3: S3Server, public_uri: str, models: Path, no_node: tuple[str, str]
) -> None:
    url, complaint = no_node

    outcome = initialize(public_uri, models, **on_a_node(s3.url, url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == (
        f"as anonymous (no keys are given, nor by the node: {complaint}), endpoint {s3.url}, region {REGION}"
    )
    assert read_tree(models) == FILES


# --- the secret storage-config -----------------------------------------------------------------------


def test_parameters_of_the_service_override_it(initialize: Initialize, s3: S3Server, uri: str, models: Path) -> None:
    config = {"type": "s3", "access_key_id": OWNER.access, "secret_access_key": OWNER.secret,
              "endpoint_url": "http://127.0.0.1:1", "region": "us-east-9"}  # fmt: skip
    parameters = {"endpoint_url": s3.url, "region": REGION}

    outcome = initialize(uri, models, STORAGE_CONFIG=json.dumps(config), STORAGE_OVERRIDE_CONFIG=json.dumps(parameters))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES
