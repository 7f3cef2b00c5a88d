"""A bundle of certificates that is named and not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_initializer.backends.trust import tls_context, trust_of
from storage_initializer.errors import CertificateError
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source

MISSING = "the CA bundle /no/such.crt cannot be used (No such file or directory); give it as PEM"


@pytest.mark.parametrize("uri", ["s3://models/bert", "gs://models/bert", "http://host/model.mar"])
def test_the_sources_own_has_to_be_there_even_where_the_endpoint_speaks_plain_http(uri: str) -> None:
    environment = {"AWS_CA_BUNDLE": "/no/such.crt", "AWS_ENDPOINT_URL": "http://minio:9000"}
    plan = make_plan([uri, "/mnt/models"], environment)

    with pytest.raises(CertificateError) as raised:
        open_source(plan.transfers[0], plan)

    assert str(raised.value) == MISSING


@pytest.mark.parametrize(
    "environment",
    [
        {"AWS_CA_BUNDLE": "/no/such.crt", "S3_VERIFY_SSL": "0"},
        {"CA_BUNDLE_CONFIGMAP_NAME": "global-ca-bundle", "CA_BUNDLE_VOLUME_MOUNT_POINT": "/no"},
    ],
    ids=["nothing is verified", "the administrator's, for all sources"],
)
def test_another_is_looked_for_when_it_is_needed(environment: dict[str, str]) -> None:
    plan = make_plan(["s3://models/bert", "/mnt/models"], {"AWS_ENDPOINT_URL": "http://minio:9000", **environment})

    open_source(plan.transfers[0], plan)


def test_what_is_missing_when_it_is_needed_is_said() -> None:
    with pytest.raises(CertificateError) as raised:
        tls_context(trust_of({"AWS_CA_BUNDLE": "/no/such.crt"}))

    assert str(raised.value) == MISSING


def test_where_nothing_is_verified_no_bundle_is_read(tmp_path: Path) -> None:
    context = tls_context(trust_of({"AWS_CA_BUNDLE": str(tmp_path / "none.crt")}, verify=False))

    assert not context.check_hostname
