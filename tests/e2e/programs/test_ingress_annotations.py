"""Annotations that are copied to an Ingress, read by nginx and HAProxy as ingress controllers write them for these.

The directives are those of ingress-nginx' template, and of haproxy-ingress' and HAProxy's own controller.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.config import IngressConfig
from isvc_operator.resolve.annotations import VALUES, ingress_annotations
from tests.support.programs import program

NGINX, HAPROXY, INGRESS = "nginx.ingress.kubernetes.io/", "haproxy.org/", "haproxy-ingress.github.io/"

Annotations = Mapping[str, str]


def complaint(*command: str | Path) -> str:
    """What a program says of a configuration that it does not read."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode else ""


def annotations_of(prefix: str) -> st.SearchStrategy[dict[str, str]]:
    """Some annotations of a controller, each with a value that is copied if it is the only one."""
    patterns = {name: pattern for name, pattern in VALUES.items() if name.startswith(prefix)}
    return st.fixed_dictionaries(
        {}, optional={name: st.from_regex(pattern, fullmatch=True) for name, pattern in patterns.items()}
    )


@st.composite
def buffers(draw: st.DrawFn) -> dict[str, str]:
    """Sizes that are close to one another, in bytes."""
    size, number = draw(st.integers(1, 9_000)), draw(st.integers(2, 9))
    return {
        NGINX + "proxy-buffer-size": str(size),
        NGINX + "proxy-buffers-number": str(number),
        NGINX + "proxy-busy-buffers-size": str(draw(st.integers(0, size * number))),
        NGINX + "proxy-max-temp-file-size": str(draw(st.integers(0, 2 * size))),
    }


def copied(own: Annotations) -> Annotations:
    return ingress_annotations(own, IngressConfig()).allowed


_NGINX = """
error_log stderr; pid {folder}/pid;
events {{}}
http {{
    access_log off; limit_conn_zone $binary_remote_addr zone=connections:32k;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {zones}
    server {{ listen unix:{folder}/socket; {locations} }}
}}
"""
_OF_LOCATION = {
    "client-body-buffer-size": "client_body_buffer_size {};",
    "cors-max-age": "add_header Access-Control-Max-Age '{}';",
    "limit-connections": "limit_conn connections {};",
    "limit-rate": "limit_rate {}k;",
    "limit-rate-after": "limit_rate_after {}k;",
    "proxy-body-size": "client_max_body_size {};",
    "proxy-buffering": "proxy_buffering {};",
    "proxy-busy-buffers-size": "proxy_busy_buffers_size {};",
    "proxy-connect-timeout": "proxy_connect_timeout {}s;",
    "proxy-http-version": "proxy_http_version {};",
    "proxy-max-temp-file-size": "proxy_max_temp_file_size {};",
    "proxy-next-upstream": "proxy_next_upstream {};",
    "proxy-next-upstream-timeout": "proxy_next_upstream_timeout {};",
    "proxy-next-upstream-tries": "proxy_next_upstream_tries {};",
    "proxy-read-timeout": "proxy_read_timeout {}s;",
    "proxy-request-buffering": "proxy_request_buffering {};",
    "proxy-send-timeout": "proxy_send_timeout {}s;",
}
_BACKENDS = {
    "HTTP": "proxy_pass http://127.0.0.1:9;",
    "HTTPS": "proxy_pass https://127.0.0.1:9;",
    "AUTO_HTTP": "proxy_pass $scheme://127.0.0.1:9;",
    "GRPC": "grpc_pass grpc://127.0.0.1:9;",
    "GRPCS": "grpc_pass grpcs://127.0.0.1:9;",
    "FCGI": "fastcgi_pass 127.0.0.1:9;",
}


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[Annotations]], str]:
    """What nginx says of a configuration with these services, if it does not read it."""
    path, folder = program("nginx"), tmp_path_factory.mktemp("nginx")

    def read(services: list[Annotations]) -> str:
        zones: list[str] = []
        locations = "\n".join(location(number, own, zones) for number, own in enumerate(services))
        config = folder / "nginx.conf"
        config.write_text(_NGINX.format(folder=folder, zones="\n".join(zones), locations=locations))
        return complaint(path, "-t", "-q", "-p", folder, "-c", config, "-e", "stderr")

    return read


def location(number: int, own: Annotations, zones: list[str]) -> str:
    """The location of a service; the zones of its rates are added to those of the server."""
    named = {name.removeprefix(NGINX): value for name, value in own.items()}
    size = named.get("proxy-buffer-size", "4k")
    limits = {name: str(int(value)) for name, value in named.items() if name.startswith("limit-")}
    given = {name: value for name, value in {**named, **limits}.items() if limits.get(name) != "0"}
    lines = [text.format(given[name]) for name, text in _OF_LOCATION.items() if name in given]
    lines += [f"proxy_buffer_size {size};", f"proxy_buffers {named.get('proxy-buffers-number', 4)} {size};"]
    for name, unit in (("limit-rps", "s"), ("limit-rpm", "m")):
        if rate := int(named.get(name, 0)):
            zones.append(f"limit_req_zone $binary_remote_addr zone={name}-{number}:32k rate={rate}r/{unit};")
            burst = rate * int(named.get("limit-burst-multiplier", 5))
            lines.append(f"limit_req zone={name}-{number} burst={burst} nodelay;")
    lines.append(_BACKENDS[named.get("backend-protocol", "HTTP").upper()])
    return f"location /{number} {{ {' '.join(lines)} }}"


@given(st.lists(st.one_of(annotations_of(NGINX), buffers()), max_size=8))
def test_nginx_reads_what_is_copied(nginx: Callable[[list[Annotations]], str], services: list[Annotations]) -> None:
    assert nginx([copied(own) for own in services]) == ""


def test_every_value_of_nginx_is_in_its_configuration() -> None:
    of_buffers = {"proxy-buffer-size", "proxy-buffers-number"}
    of_rates = {"limit-rps", "limit-rpm", "limit-burst-multiplier"}

    checked = {name.removeprefix(NGINX) for name in VALUES if name.startswith(NGINX)}
    assert checked == {*_OF_LOCATION, *of_buffers, *of_rates, "backend-protocol"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("client-body-buffer-size", value) for value in ("1g", "x", "16 k", "-1")),
        *(("limit-connections", value) for value in ("65536", "9" * 9)),
        *(("proxy-body-size", value) for value in ("", "large", "8mb", "-1", "1.5m", "8 m", "9" * 20)),
        *(("proxy-buffer-size", value) for value in ("0", "1g", "2000m", "-4k")),
        *(("proxy-buffering", value) for value in ("yes", "true", "on on")),
        *(("proxy-buffers-number", value) for value in ("0", "1", "2", "many")),
        ("proxy-http-version", "2"),
        *(("proxy-max-temp-file-size", value) for value in ("1k", "1g", "off")),
        *(("proxy-next-upstream", value) for value in ("never", "error,timeout", "")),
        *(("proxy-next-upstream-timeout", value) for value in ("-1", "9" * 20, "forever")),
        *(("proxy-next-upstream-tries", value) for value in ("-1", "9" * 20, "x")),
        *(("proxy-read-timeout", value) for value in ("-1", "60s", "9" * 20, "forever")),
    ],
)
def test_what_nginx_does_not_read_is_not_copied(
    nginx: Callable[[list[Annotations]], str], name: str, value: str
) -> None:
    own = {NGINX + name: value}

    assert nginx([own])
    assert copied(own) == {}


def test_a_burst_of_nothing_is_not_copied(nginx: Callable[[list[Annotations]], str]) -> None:
    own = {NGINX + "limit-rps": "1", NGINX + "limit-burst-multiplier": "0"}

    assert nginx([own])
    assert copied(own) == {NGINX + "limit-rps": "1"}


_LISTENER = """
defaults
    mode http
    timeout client 1s
    timeout connect 1s
    timeout server 1s
frontend f
    bind unix@{folder}/socket
    http-request return status 200
"""
_SERVICE = """
defaults
    mode http
    {timeouts}
backend b{number}
    stick-table type ip size 1k expire 5m store conn_cur,conn_rate(1s)
    {rules}
    server s 127.0.0.1:9 {limits}
backend r{number}
    stick-table type ip size 1k store http_req_rate({period})
"""
_RULES = {
    "allow-list": "http-request deny unless {{ src -f {value} }}",
    "balance-algorithm": "balance {value}",
    "deny-list": "http-request deny if {{ src -f {value} }}",
    "limit-connections": "http-request deny if {{ src_conn_cur(b{number}) gt {value} }}",
    "limit-rps": "http-request deny if {{ src_conn_rate(b{number}) gt {value} }}",
    "load-balance": "balance {value}",
    "rate-limit-requests": "http-request deny if {{ src_http_req_rate(r{number}) gt {value} }}",
}
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


@pytest.fixture(scope="module")
def haproxy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[Annotations]], str]:
    """What HAProxy says of a configuration with these services, if it does not read it."""
    path, folder = program("haproxy"), tmp_path_factory.mktemp("haproxy")

    def read(services: list[Annotations]) -> str:
        config = folder / "haproxy.cfg"
        backends = (proxies(number, own) for number, own in enumerate(services))
        config.write_text("".join((_LISTENER.format(folder=folder), *backends)))
        return complaint(path, "-c", "-f", config)

    return read


def proxies(number: int, own: Annotations) -> str:
    """The backend of a service, with the one that counts its requests; the timeouts are also those of frontends."""
    named = {name.rpartition("/")[2]: value for name, value in own.items()}
    lines = [text.format(value=named[name], number=number) for name, text in _RULES.items() if name in named]
    if size := named.get("proxy-body-size"):
        unit = _UNITS.get(size[-1].lower())
        lines.append(f"http-request deny if {{ req.body_size gt {int(size[:-1]) * unit if unit else size} }}")
    timeouts = [f"{name.replace('-', ' ', 1)} {value}" for name, value in named.items() if name.startswith("timeout-")]
    limits = [f"maxconn {named[name]}" for name in ("maxconn-server", "pod-maxconn") if name in named]
    return _SERVICE.format(
        number=number,
        timeouts="\n    ".join(timeouts),
        rules="\n    ".join(lines),
        limits=" ".join(limits),
        period=named.get("rate-limit-period", "1s"),
    )


@given(st.lists(st.one_of(annotations_of(HAPROXY), annotations_of(INGRESS)), max_size=8))
def test_haproxy_reads_what_is_copied(haproxy: Callable[[list[Annotations]], str], services: list[Annotations]) -> None:
    """Without lists of addresses: the controllers read them, and write what they have read."""
    lists = re.compile(r".*-(list|range)")
    read = [{name: value for name, value in copied(own).items() if not lists.fullmatch(name)} for own in services]

    assert haproxy(read) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (INGRESS + "balance-algorithm", "best"),
        (HAPROXY + "load-balance", "best"),
        *((HAPROXY + name, "patterns/none") for name in ("allow-list", "deny-list")),
        *(
            (name, value)
            for name in (HAPROXY + "rate-limit-period", HAPROXY + "timeout-server", INGRESS + "timeout-server")
            for value in ("long", "30d", "25d", "999h", "-1s")
        ),
        (INGRESS + "limit-rps", "many"),
    ],
)
def test_what_haproxy_does_not_read_is_not_copied(
    haproxy: Callable[[list[Annotations]], str], name: str, value: str
) -> None:
    own = {name: value}

    assert haproxy([own])
    assert copied(own) == {}
