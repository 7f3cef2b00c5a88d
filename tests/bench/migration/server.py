"""A server of the protocol v1 in the standard library, as a user's own: a model in a folder, or a transformer.

It stands for servers of other people. When it is told to end, it refuses new connections at once, as most do.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", type=Path)
parser.add_argument("--predictor_host")
parser.add_argument("--http_port", type=int, default=8080)
arguments, _ = parser.parse_known_args()
factor = json.loads((arguments.model_dir / "model.json").read_text())["factor"] if arguments.model_dir else 2


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.respond({"name": "model", "ready": True})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if arguments.predictor_host:
            url = f"http://{arguments.predictor_host}{self.path}"
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                self.respond({**json.load(answer), "transformer": socket.gethostname()})
            return
        self.respond({"predictions": [factor * number for number in json.loads(body)["instances"]]})

    def respond(self, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64


with Server(("", arguments.http_port), Handler) as server:
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.1)
os._exit(0)
