"""S3 and web servers whose certificates an authority of one's own has signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from tests.e2e.stores.conftest import environment_of
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import tls, versitygw
from tests.support.object_stores.proxy import proxy

FILES = {"config.json": b"{}"}


@pytest.fixture(scope="module")
def secure(home: Path, certificate: tls.Certificate) -> Iterator[versitygw.S3Server]:
    with versitygw.running(home / "secure", certificate) as server:
        server.create_bucket("models")
        server.put("models", "model/config.json", FILES["config.json"])
        yield server


def test_a_bundle_of_the_secret_is_believed(
    initialize: Initialize, secure: versitygw.S3Server, certificate: tls.Certificate, models: Path
) -> None:
    outcome = initialize(
        "s3://models/model", models, **environment_of("s3", secure.url), AWS_CA_BUNDLE=str(certificate.authority)
    )

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES


def test_a_bundle_of_the_cluster_is_believed(
    initialize: Initialize, secure: versitygw.S3Server, certificate: tls.Certificate, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "cabundle.crt").write_bytes(certificate.authority.read_bytes())
    bundle = {"CA_BUNDLE_CONFIGMAP_NAME": "authorities", "CA_BUNDLE_VOLUME_MOUNT_POINT": str(tmp_path)}

    outcome = initialize("s3://models/model", models, **environment_of("s3", secure.url), **bundle)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES


def test_certificates_need_not_be_checked(initialize: Initialize, secure: versitygw.S3Server, models: Path) -> None:
    outcome = initialize("s3://models/model", models, **environment_of("s3", secure.url), S3_VERIFY_SSL="0")

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1].endswith(", certificates not checked")


def test_an_unknown_authority_is_refused(initialize: Initialize, secure: versitygw.S3Server, models: Path) -> None:
    outcome = initialize("s3://models/model", models, **environment_of("s3", secure.url))

    host = secure.url.removeprefix("https://")
    assert (outcome.exit_code, outcome.reason) == (
        16,
        f"s3://models/model: the certificate of {host} is not trusted (UnknownIssuer); "
        "give its CA in a bundle (annotation serving.kserve.io/s3-cabundle, or caBundleConfigMapName)",
    )


def test_a_certificate_of_another_host_is_refused(initialize: Initialize, home: Path, models: Path) -> None:
    stolen = tls.issue(home / "stolen", x509.DNSName("elsewhere.example.com"))
    with versitygw.running(home / "impostor", stolen) as server:
        outcome = initialize(
            "s3://models/model", models, **environment_of("s3", server.url), AWS_CA_BUNDLE=str(stolen.authority)
        )

    host = server.url.removeprefix("https://")
    assert (outcome.exit_code, outcome.reason) == (
        16,
        f"s3://models/model: the certificate of {host} is another host's; use the name it was made for",
    )


def test_a_server_without_tls_is_told(initialize: Initialize, s3: versitygw.S3Server, models: Path) -> None:
    secure = s3.url.replace("http:", "https:")

    outcome = initialize("s3://models/model", models, **environment_of("s3", secure), S3_MAX_ATTEMPTS="1")

    assert outcome.exit_code == 15
    assert outcome.reason.startswith(f"s3://models/model: {s3.url.removeprefix('http://')} does not speak TLS (")


def test_an_authority_that_is_a_server_itself_is_refused_and_told_why(
    initialize: Initialize, home: Path, models: Path
) -> None:
    """As ``openssl req -x509`` makes a certificate."""
    own = tls.issue(home / "own", itself=True)
    with proxy(None, certificate=own) as server:
        outcome = initialize(
            "s3://models/model", models, **environment_of("s3", server.url), AWS_CA_BUNDLE=str(own.authority)
        )

    host = server.url.removeprefix("https://")
    assert (outcome.exit_code, outcome.reason) == (
        16,
        f"s3://models/model: the certificate of {host} is an authority's own, which no server may have; sign one for "
        "it (CA:FALSE)",
    )
