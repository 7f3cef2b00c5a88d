"""``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY`` to the proxy of a request."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from storage_initializer.backends.proxies import Proxy, proxies_of
from storage_initializer.errors import UsageError

BOTH = {"HTTP_PROXY": "http://plain:3128", "HTTPS_PROXY": "http://secure:3129"}
URL = "https://models.s3.eu-west-1.amazonaws.com/bert"


def proxy_of(url: str, environment: dict[str, str]) -> Proxy | None:
    return proxies_of(environment).proxy_for(urlsplit(url))


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        (URL, {}, None),
        (URL, {"HTTP_PROXY": "http://plain:3128"}, None),
        (URL, BOTH, Proxy("secure", 3129, "HTTPS_PROXY")),
        ("http://minio:9000", BOTH, Proxy("plain", 3128, "HTTP_PROXY")),
        (URL, {**BOTH, "https_proxy": "lower"}, Proxy("lower", 80, "https_proxy")),
        (
            URL,
            {"HTTPS_PROXY": "http://me:p%40ss@proxy:1/"},
            Proxy("proxy", 1, "HTTPS_PROXY", "me:p%40ss"),
        ),
    ],
)
def test_which_proxy(url: str, environment: dict[str, str], expected: Proxy | None) -> None:
    assert proxy_of(url, environment) == expected


@pytest.mark.parametrize(
    ("url", "no_proxy"),
    [
        (URL, "*"),
        (URL, "other, amazonaws.com"),
        (URL, ".amazonaws.com"),
        (URL, "*.amazonaws.com:443"),
        (URL, "Models.S3.eu-west-1.amazonaws.com"),
        ("http://minio.models.svc:9000", ".svc"),
        ("http://10.1.2.3:9000", "10.0.0.0/8"),
        ("http://10.1.2.3:9000", "10.1.2.3"),
        ("http://10.1.2.3:9000", "10.1.2.3:9000"),
    ],
)
def test_what_needs_no_proxy(url: str, no_proxy: str) -> None:
    assert proxy_of(url, {**BOTH, "NO_PROXY": no_proxy}) is None


@pytest.mark.parametrize(
    ("url", "no_proxy"),
    [(URL, ""), (URL, "ws.com"), (URL, "amazonaws.com:80"), (URL, "s3.eu-west-1"), ("http://10.1.2.3", "11.0.0.0/8")],
)
def test_what_needs_one_nevertheless(url: str, no_proxy: str) -> None:
    assert proxy_of(url, {**BOTH, "NO_PROXY": no_proxy}) is not None


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/api/token", "http://169.254.170.23/v1", "http://[fd00:ec2::23]/v1"]
)
def test_what_is_on_the_node_is_asked_directly(url: str) -> None:
    assert proxy_of(url, BOTH) is None


@pytest.mark.parametrize("url", ["socks5://user:s3cret@proxy:1080", "https://proxy", "http://", "http://proxy:port"])
def test_what_is_no_http_proxy_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        proxies_of({"HTTPS_PROXY": url})

    assert str(raised.value) == "HTTPS_PROXY names no HTTP proxy; write http://[USER:PASSWORD@]HOST:PORT"
