"""How obstore is told what to do, and what is made of what it lists."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.store import client_options, md5_of
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import CertificateError
from storage_initializer.limits import MAX_MD5, MAX_REQUEST_S
from storage_initializer.plan import RequestPolicy
from storage_initializer.sources import Checksum
from tests.support.object_stores import tls

POLICY = RequestPolicy(connect_s=2, read_s=3, attempts=1)
EMPTY = "d41d8cd98f00b204e9800998ecf8427e"


def test_a_client_has_the_timeouts_of_the_policy_and_one_for_each_response() -> None:
    assert client_options("https://host", Trust(), POLICY, proxies_of({})) == {
        "allow_http": False,
        "allow_invalid_certificates": False,
        "connect_timeout": timedelta(seconds=2),
        "read_timeout": timedelta(seconds=3),
        "timeout": timedelta(seconds=MAX_REQUEST_S),
    }


def test_the_proxy_of_the_environment_is_used_and_never_for_the_node() -> None:
    proxies = proxies_of({"HTTP_PROXY": "http://me:p%40ss@proxy:3128", "NO_PROXY": "minio"})

    options = client_options("http://store", Trust(verify=False), POLICY, proxies)

    assert (options["allow_http"], options["allow_invalid_certificates"]) == (True, True)
    assert options["proxy_url"] == "http://me:p%40ss@proxy:3128"
    assert options["proxy_excludes"] == "minio,169.254.0.0/16,fd00:ec2::/32"
    assert "proxy_url" not in client_options("http://minio", Trust(), POLICY, proxies)


def test_a_bundle_is_added_to_the_certificates_of_the_system(tmp_path: Path) -> None:
    authority = tls.issue(tmp_path).authority

    options = client_options("https://host", Trust(ca_file=str(authority)), POLICY, proxies_of({}))

    assert options["root_certificate"] == authority.read_bytes()


def test_a_bundle_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")

    with pytest.raises(CertificateError, match="cannot be used"):
        client_options("https://host", Trust(ca_file=str(tmp_path / "ca.crt")), POLICY, proxies_of({}))


@pytest.mark.parametrize(
    ("etag", "digest"),
    [(f'"{EMPTY}"', EMPTY), ("1B2M2Y8AsgTpgAmY7PhCfg==", EMPTY), (f'"{EMPTY}-2"', None), ('"0x8DC"', None), ("", None)],
    ids=["MD5", "in base64", "of parts", "Azure's", "none"],
)
def test_an_etag_that_is_an_md5_is_one(etag: str, digest: str | None) -> None:
    assert md5_of(etag, 0) == (Checksum("md5", digest) if digest else None)


def test_the_etag_of_a_large_object_is_not_compared() -> None:
    assert md5_of(f'"{EMPTY}"', MAX_MD5) == Checksum("md5", EMPTY)
    assert md5_of(f'"{EMPTY}"', MAX_MD5 + 1) is None
