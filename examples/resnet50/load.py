"""Load: ``python load.py PICTURE`` uploads one picture again and again and says how fast the answers come.

Prints requests a second, the median and 99th percentile of their times, and how large the
batches were where the server counts them, as ours do.
"""

from __future__ import annotations

import argparse
import http.client
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BOUNDARY = "one-picture"
BUCKET = re.compile(r'^batch_size_requests_bucket\{le="([^"]+)",model_name="([^"]+)"\} (\S+)$', re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--address", default="127.0.0.1:8080")
    parser.add_argument("--host", help="Host header, where an ingress goes by it")
    parser.add_argument("--model", default="tags")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    body = form(options.picture.read_bytes())
    before = batches(options)
    deadline = time.monotonic() + options.seconds
    with ThreadPoolExecutor(options.clients) as clients:
        runs = [clients.submit(ask_until, deadline, options, body) for _ in range(options.clients)]
        times = sorted(spent for run in runs for spent in run.result())
    print(summary(times, options.seconds, options.clients))
    print(histogram(batches(options) - before))
    return 0


def form(picture: bytes) -> bytes:
    """As `curl -F data=@picture` sends it."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="data"; filename="picture"\r\n\r\n'
    return head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()


def ask_until(deadline: float, options: argparse.Namespace, body: bytes) -> list[float]:
    """Seconds of each request of one client; ends the run at the first that fails."""
    connection = http.client.HTTPConnection(options.address, timeout=60)
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", **host(options)}
    times = []
    while (started := time.monotonic()) < deadline:
        connection.request("POST", f"/predictions/{options.model}", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {content.decode(errors='replace')}")
        times.append(time.monotonic() - started)
    return times


def host(options: argparse.Namespace) -> dict[str, str]:
    return {"Host": options.host} if options.host else {}


def batches(options: argparse.Namespace) -> Counter[str]:
    """How many batches so far, by their size; the server's counts are of sizes up to each."""
    connection = http.client.HTTPConnection(options.address, timeout=60)
    connection.request("GET", "/metrics", headers=host(options))
    counted, below = Counter[str](), 0
    for size, name, upto in BUCKET.findall(connection.getresponse().read().decode()):
        if name == options.model:
            counted[size] = int(float(upto)) - below
            below = int(float(upto))
    return counted


def summary(times: list[float], seconds: float, clients: int) -> str:
    p50, p99 = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
    return f"{clients} clients: {len(times) / seconds:.1f} requests/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def histogram(counts: Counter[str]) -> str:
    if not counts.total():
        return "the server counts no batches"
    lines = [
        f"  up to {float(size):>4g} requests: {count:6} {'#' * (50 * count // max(counts.values()))}"
        for size, count in counts.items()
        if count
    ]
    return "\n".join(["batches:", *lines])


if __name__ == "__main__":
    sys.exit(main())
