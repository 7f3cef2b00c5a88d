"""A model server of one file for tests of the laptop path: starts at once, and does what a test tells it to.

``python fake_runtime.py --http-port 8080 --model-dir DIR``; its variables:
FAIL    leave this text as the termination message and end with exit code 3 at the start
GATE    a prediction says "waiting" and waits until someone opens this named pipe for writing
SICK    the server does not live while this file exists
STUBBORN  ignore SIGTERM
NOISY   print a line of 10 MB at the start
SLOW    a prediction takes so many seconds
MUTE    the list of models is not sent
ALONE   one connection is served at a time
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "fake"
has: list[str] = []  # the texts of the model's files
answered = Counter[int]()  # predictions by status


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v2/health/live" and Path(os.environ.get("SICK", "")).is_file():
            self.answer({"error": "out of memory"}, status=500)
        elif self.path == "/v1/models" and os.environ.get("MUTE"):
            time.sleep(600)
        elif self.path == "/metrics":
            counted = (f'http_requests_total{{status="{status}"}} {number}\n' for status, number in answered.items())
            self.reply("".join(("# TYPE http_requests_total counter\n", *counted)))
        else:
            self.answer({"models": [MODEL]} if self.path == "/v1/models" else {"ready": True})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if gate := os.environ.get("GATE"):
            sys.stdout.write("waiting\n")
            sys.stdout.flush()
            Path(gate).read_bytes()
        time.sleep(float(os.environ.get("SLOW", "0")))
        body = {"predictions": request["instances"], "pid": os.getpid(), "service": service(), "has": has}
        status = 500 if request["instances"] == ["a bug"] else 200
        answered[status] += 1
        self.answer(body, status=status)

    def answer(self, body: Any, status: int = 200) -> None:
        self.reply(json.dumps(body), status)

    def reply(self, text: str, status: int = 200) -> None:
        content = text.encode()
        self.send_response(status)
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
    if os.environ.get("STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ.get("NOISY"):
        sys.stdout.write("\x1b[31mx" * 2_000_000 + "\n")
    has.extend(path.read_text() for path in sorted(arguments.model_dir.iterdir()) if path.is_file())
    sys.stdout.write(f"serving {sorted(path.name for path in arguments.model_dir.iterdir())}\n")
    server_class = HTTPServer if os.environ.get("ALONE") else ThreadingHTTPServer
    with server_class(("127.0.0.1", arguments.http_port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
