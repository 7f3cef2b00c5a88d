"""A node whose kubelet does no more than return logs: of any container, one line that is as long as asked for."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from tests.support.apiserver import ApiServer
from tests.support.object_stores.tls import issue

LINE_BYTES = 10_000_000


@contextlib.contextmanager
def played_kubelet(server: ApiServer, node: str, folder: Path) -> Iterator[list[str]]:
    """A node of this name. The paths that were asked for are appended to the list."""
    certificate, asked = issue(folder), list[str]()
    answering = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _answering(asked))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    answering.socket = context.wrap_socket(answering.socket, server_side=True)
    serving = threading.Thread(target=answering.serve_forever)
    serving.start()
    try:
        server.send("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": answering.server_port}},
        }
        patch = {"status": status}
        server.send("PATCH", f"/api/v1/nodes/{node}/status", patch, content="application/merge-patch+json")
        yield asked
    finally:
        server.send("DELETE", f"/api/v1/nodes/{node}")
        answering.shutdown()
        answering.server_close()
        serving.join()


def _answering(asked: list[str]) -> type[http.server.BaseHTTPRequestHandler]:
    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            body = b"x" * min(LINE_BYTES, int(query.get("limitBytes", [str(LINE_BYTES)])[0]))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            """Log nothing."""

    return Answering
