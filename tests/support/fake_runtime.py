"""A model server of one file for tests of the laptop path: starts at once, and does what a test tells it to.

``python fake_runtime.py --http-port 8080 --model-dir DIR``; its variables:
FAIL    leave this text as the termination message and end with exit code 3 at the start
GATE    a prediction says "waiting" and waits until someone opens this named pipe for writing
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "fake"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer({"models": [MODEL]} if self.path == "/v1/models" else {"ready": True})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if gate := os.environ.get("GATE"):
            sys.stdout.write("waiting\n")
            sys.stdout.flush()
            Path(gate).read_bytes()
        self.answer({"predictions": request["instances"], "pid": os.getpid(), "service": service()})

    def answer(self, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


def service() -> str:
    return os.environ["INFERENCE_SERVICE_NAME"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--model-dir", type=Path, required=True)
    arguments = parser.parse_args()
    if reason := os.environ.get("FAIL"):
        Path(os.environ["TERMINATION_LOG"]).write_text(reason)
        sys.exit(3)
    sys.stdout.write(f"serving {sorted(path.name for path in arguments.model_dir.iterdir())}\n")
    ThreadingHTTPServer(("127.0.0.1", arguments.http_port), Handler).serve_forever()


if __name__ == "__main__":
    main()
