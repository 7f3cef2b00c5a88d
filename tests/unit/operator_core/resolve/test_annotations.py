"""Values of annotations that a controller's server reads, and those with which it refuses everybody's Ingresses."""

from __future__ import annotations

import pytest

from isvc_operator.config import IngressConfig
from isvc_operator.resolve.annotations import ingress_annotations

NGINX, HAPROXY, INGRESS = "nginx.ingress.kubernetes.io/", "haproxy.org/", "haproxy-ingress.github.io/"


def left_out(**own: str) -> list[str]:
    """Which annotations of ingress-nginx are left out; a name has ``_`` for ``-``."""
    given = {NGINX + name.replace("_", "-"): value for name, value in own.items()}
    return [name.removeprefix(NGINX) for name in ingress_annotations(given, IngressConfig()).left_out]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((NGINX + "proxy-body-size", value) for value in ("0", "8m", "50M", "1g", "1024")),
        *((NGINX + "client-body-buffer-size", value) for value in ("16k", "50M")),
        *((NGINX + "proxy-buffer-size", value) for value in ("4096", "16k", "1m")),
        *((NGINX + "proxy-buffers-number", value) for value in ("8", "32")),
        *((NGINX + "proxy-max-temp-file-size", value) for value in ("0", "1m", "1024m")),
        *((NGINX + "proxy-buffering", value) for value in ("on", "off")),
        (NGINX + "proxy-request-buffering", "off"),
        (NGINX + "proxy-http-version", "1.1"),
        *(
            (NGINX + "proxy-next-upstream", value)
            for value in ("off", "error timeout", "error http_502 non_idempotent")
        ),
        *((NGINX + "proxy-read-timeout", value) for value in ("1", "600", "86400")),
        (NGINX + "limit-rps", "5"),
        *((NGINX + "backend-protocol", value) for value in ("HTTPS", "grpc", "AUTO_HTTP")),
        (NGINX + "allowlist-source-range", "10.0.0.0/8, 192.168.0.1"),
        *(
            (prefix + "timeout-server", value)
            for prefix in (HAPROXY, INGRESS)
            for value in ("50", "600s", "10m", "24h", "7d")
        ),
        (INGRESS + "balance-algorithm", "leastconn"),
        (HAPROXY + "pod-maxconn", "100"),
        *((HAPROXY + "rate-limit-period", value) for value in ("1ms", "10s")),
        (HAPROXY + "allow-list", "10.0.0.0/8, fd00::1"),
        *((NGINX + "limit-connections", value) for value in ("0", "9999", "59999")),
    ],
)
def test_what_can_be_read_is_copied(name: str, value: str) -> None:
    found = ingress_annotations({name: value}, IngressConfig())

    assert (found.allowed, found.left_out) == ({name: value}, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((NGINX + "proxy-body-size", value) for value in ("", "large", "8mb", "-1", "1.5m", "8 m", "9" * 20)),
        *((NGINX + "client-body-buffer-size", value) for value in ("1g", "x", "16 k", "100m")),
        *((NGINX + "proxy-buffer-size", value) for value in ("0", "1g", "2m", "1000k", "-4k")),
        *((NGINX + "proxy-buffers-number", value) for value in ("0", "1", "2", "100", "many")),
        *((NGINX + "proxy-max-temp-file-size", value) for value in ("1k", "1g", "off")),
        (NGINX + "proxy-busy-buffers-size", "8k"),
        *((NGINX + "proxy-buffering", value) for value in ("yes", "ON", "true", "on on")),
        (NGINX + "proxy-http-version", "2"),
        *((NGINX + "proxy-next-upstream", value) for value in ("never", "error,timeout", "error ", "")),
        *((NGINX + "proxy-read-timeout", value) for value in ("-1", "60s", "9" * 20, "forever")),
        (NGINX + "limit-rate", "9" * 20),
        (NGINX + "backend-protocol", "FTP"),
        *(
            (prefix + "timeout-server", value)
            for prefix in (HAPROXY, INGRESS)
            for value in ("long", "30d", "999h", "-1s")
        ),
        (INGRESS + "balance-algorithm", "best"),
        (HAPROXY + "pod-maxconn", "all"),
        # HAProxy ends when it has to divide by nothing; the controller takes microseconds for that.
        *((HAPROXY + "rate-limit-period", value) for value in ("0", "0s", "00", "1us")),
        *((prefix + name, "patterns/x") for prefix in (HAPROXY, INGRESS) for name in ("allow-list", "deny-list")),
        (NGINX + "limit-connections", "65536"),
        (NGINX + "limit-burst-multiplier", "0"),
        *((NGINX + "session-cookie-name", value) for value in ('a"', "a;", "a{", "a\n", "a$b")),
    ],
)
def test_what_cannot_be_read_is_left_out(name: str, value: str) -> None:
    found = ingress_annotations({name: value}, IngressConfig())

    assert (found.allowed, found.left_out) == ({}, (name,))


@pytest.mark.parametrize("value", ["\n", "0\n", "8m\n", "8m;", "8m}", "8m #", "8m\r"])
def test_nothing_follows_a_value(value: str) -> None:
    assert left_out(proxy_body_size=value) == ["proxy-body-size"]


@pytest.mark.parametrize(
    ("size", "number", "busy", "refused"),
    [
        ("4k", "4", "8k", []),
        ("4k", "4", "4k", []),
        ("4k", "4", "12K", []),
        ("4k", "4", "16k", ["proxy-busy-buffers-size"]),
        ("4k", "4", "2k", ["proxy-busy-buffers-size"]),
        ("1m", "3", "2048k", []),
        ("x", "4", "8k", ["proxy-buffer-size", "proxy-busy-buffers-size"]),
        ("4k", "2", "4k", ["proxy-buffers-number", "proxy-busy-buffers-size"]),
    ],
)
def test_busy_buffers_are_one_at_least_and_not_all(size: str, number: str, busy: str, refused: list[str]) -> None:
    assert left_out(proxy_buffer_size=size, proxy_buffers_number=number, proxy_busy_buffers_size=busy) == refused


@pytest.mark.parametrize(("size", "file", "refused"), [("4k", "8k", []), ("64k", "8k", ["proxy-max-temp-file-size"])])
def test_a_temporary_file_is_no_smaller_than_a_buffer(size: str, file: str, refused: list[str]) -> None:
    assert left_out(proxy_buffer_size=size, proxy_max_temp_file_size=file) == refused


def test_the_administrator_may_allow_any_value() -> None:
    config = IngressConfig(allowed_service_annotations=(NGINX + "proxy-*",))

    assert ingress_annotations({NGINX + "proxy-body-size": "8 m"}, config).left_out == ()
