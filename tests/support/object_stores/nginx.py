"""HTTP and HTTPS by nginx: a folder as it is, and the same folder behind passwords, tokens and slow lines."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.object_stores.programs import listening, program
from tests.support.object_stores.tls import Certificate
from tests.support.ports import free_port

USER, PASSWORD, TOKEN = "alice", "wonderland", "a-token"

_CONFIG = """
daemon off; master_process off; pid {home}/pid; error_log {home}/errors;
events {{}}
http {{
    access_log off; sendfile on; keepalive_requests 100000;
    client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
    types {{ application/zip zip; application/x-tar tar; application/gzip gz tgz; text/html html; }}
    default_type application/octet-stream;
    map $http_authorization $known {{ default 0; "Bearer {token}" 1; }}
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{tls_port} ssl;
        ssl_certificate {chain}; ssl_certificate_key {key};
        root {root};
        location /basic/  {{ alias {root}/; auth_basic "models"; auth_basic_user_file {home}/passwords; }}
        location /bearer/ {{ alias {root}/; if ($known = 0) {{ return 401; }} }}
        location /slow/   {{ alias {root}/; limit_rate 2m; }}
        location /whole/  {{ alias {root}/; max_ranges 0; etag off; }}
        location /plain/  {{ rewrite ^/plain/(.*)$ http://127.0.0.1:{port}/$1 redirect; }}
    }}
}}
"""


@dataclass(frozen=True)
class HttpServer:
    """A running nginx. Beside ``/`` it has the same files below ``/basic/``, ``/bearer/``, ``/slow/`` (2 MiB/s) and
    ``/whole/`` (no ranges, no entity tags), and below ``/plain/`` redirects to them over HTTP without TLS."""

    url: str
    tls_url: str
    root: Path

    def put(self, path: str, content: bytes) -> str:
        """Its URL."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return f"{self.url}/{path}"


@contextlib.contextmanager
def running(home: Path, certificate: Certificate) -> Iterator[HttpServer]:
    root, port, tls_port = home / "www", free_port(), free_port()
    root.mkdir(parents=True)
    (home / "passwords").write_text(f"{USER}:{_hashed(PASSWORD)}\n")
    config = _CONFIG.format(home=home, root=root, port=port, tls_port=tls_port, token=TOKEN, **vars(certificate))
    (home / "nginx.conf").write_text(config)
    command = [program("nginx"), "-p", str(home), "-c", f"{home}/nginx.conf", "-e", f"{home}/errors"]
    with listening(command, port, home / "log"):
        yield HttpServer(f"http://127.0.0.1:{port}", f"https://127.0.0.1:{tls_port}", root)


def _hashed(password: str) -> str:
    """As nginx takes it."""
    return "{SHA}" + base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()
