"""A transformer of one file for tests of the laptop path, with the flags that the operator gives.

``python fake_transformer.py --model_name fake --predictor_host HOST --http_port 8080``; it adds its own name to the
predictor's answer, or "explained by" it.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    predictor = model = ""

    def do_GET(self) -> None:
        self.answer({"models": [self.model]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        url = f"http://{self.predictor}/v1/models/{self.model}:predict"
        with urllib.request.urlopen(url, body) as response:
            answer = json.loads(response.read())
        how = "explained" if self.path.endswith(":explain") else "transformed"
        self.answer({"predictions": answer["predictions"], how: True})

    def answer(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name", required=True)
    parser.add_argument("--predictor_host", required=True)
    parser.add_argument("--http_port", type=int, required=True)
    arguments = parser.parse_args()
    Handler.predictor, Handler.model = arguments.predictor_host, arguments.model_name
    ThreadingHTTPServer(("127.0.0.1", arguments.http_port), Handler).serve_forever()


if __name__ == "__main__":
    main()
