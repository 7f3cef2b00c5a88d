"""Bytes on the HTTP and gRPC ports that no client of ours would send: the others are served all the while."""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.support.fuzz import damaged
from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

# It answers whatever it is sent, so that an error of the server is the server's own.
PROGRAM = """
from transformer_sdk.kserve import InferRequest, InferResponse, Model, ModelServer

class Constant(Model):
    ready = True

    async def predict(self, payload, headers):
        if isinstance(payload, InferRequest):
            return InferResponse(payload.id, self.name, [])
        return {"predictions": []}

ModelServer().start([Constant("m")])
"""
SEEDS = st.integers(0, 2**64)
MOST_MEMORY = 300 << 20  # of the server, in bytes: it begins with 90 MiB
ANSWER_S = 20.0  # for what hangs

_V1, _INFER = b'{"instances":[[1,2]]}', b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,2]}]}'
_BINARY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}'
_FORM = b'--b\r\nContent-Disposition: form-data; name="data"; filename="x"\r\n\r\n\x89PNG\r\n--b--\r\n'


def _request(line: bytes, body: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join([line, b"Host: x", *fields, b"Content-Length: %d" % len(body), b"", body])


_POST = b"POST /v1/models/m:predict HTTP/1.1"
REQUESTS = [
    b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
    b"GET /v2/models/m HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    _request(_POST, _V1, b"Content-Type: application/json", b"Expect: 100-continue"),
    _request(_POST, _FORM, b"Content-Type: multipart/form-data; boundary=b"),
    _request(_POST, _V1, b"ce-id: 1", b"ce-source: s", b"ce-type: t", b"ce-specversion: 1.0"),
    _request(b"POST /v2/models/m/infer HTTP/1.1", _INFER),
    _request(
        b"POST /v2/models/m/infer HTTP/1.1", _BINARY + bytes(8), b"Inference-Header-Content-Length: %d" % len(_BINARY)
    ),
    _POST
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"
    + _V1[:5]
    + b"\r\n10;x=y\r\n"
    + _V1[5:]
    + b"\r\n0\r\nT: t\r\n\r\n",
]
_HEAD_TOKENS = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b":", b" ", b"\x00", b"\xff", b"%00", b"%2e%2e/", b"..", b"HTTP/1.1",
    b"HTTP/2.0",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Host: y\r\n", b"[" * 3000, b"{", b"}",
    b'"', b"1e999",
    b"Content-Type: multipart/form-data; boundary=\r\n", b"x" * 9000, b"a: b\r\n" * 200,
    b"Content-Encoding: gzip\r\n",
)  # fmt: skip

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: bytes, value: bytes, kind: int = 0x40) -> bytes:
    """A field of a head as HPACK has it, by default one that is kept in the table."""
    return bytes([kind, len(name)]) + name + bytes([len(value)]) + value


_INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_FIELDS = [
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", _INFER_METHOD.encode()),
    (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"x-a", b"a" * 100),
]  # fmt: skip
_HEADERS = b"".join(_literal(name, value) for name, value in _FIELDS)
_TENSOR = {"name": "x", "datatype": "FP32", "shape": [2], "contents": {"fp32_contents": [1, 2]}}
_MESSAGE = pb.ModelInferRequest(model_name="m", inputs=[_TENSOR]).SerializeToString()
_DATA = b"\0" + struct.pack(">I", len(_MESSAGE)) + _MESSAGE
_SETTINGS = _frame(4, 0, 0)
CALLS = [
    _PREFACE + _SETTINGS + _frame(1, 4, 1, _HEADERS) + _frame(0, 1, 1, _DATA),
    _PREFACE + _SETTINGS + _frame(1, 0, 1, _HEADERS[:40]) + _frame(9, 4, 1, _HEADERS[40:]) + _frame(0, 1, 1, _DATA),
    _PREFACE
    + _SETTINGS
    + b"".join(_frame(1, 4, 2 * n + 1, _HEADERS) + _frame(3, 0, 2 * n + 1, bytes(4)) for n in range(20)),
    _PREFACE
    + _SETTINGS
    + _frame(6, 0, 0, bytes(8)) * 50
    + _frame(8, 0, 0, b"\0\0\xff\xff")
    + _frame(7, 0, 0, bytes(8)),
]
_FRAME_TOKENS = (
    b"\xbe" * 4000, b"\x3f\xe1\x1f", b"\x20", b"\x80", b"\xff\xff\xff\xff\x7f", _literal(b"x", b"y", 0x00),
    _literal(b":path", b"/"), _literal(b"X", b"\r\n"), _frame(4, 0, 0, b"\x00\x01\xff\xff\xff\xff"), _frame(9, 0,
    1), _frame(0, 8, 1, b"\xff"),
    _frame(5, 4, 1, b"\0\0\0\2"), _frame(8, 0, 1, b"\x7f\xff\xff\xff"), _frame(2, 0, 1, b"\0\0\0\1\0"),
    b"\x00\x00\x00", b"\xff\xff\xff",
)  # fmt: skip


@dataclass
class Server:
    port: int
    grpc_port: int
    process: subprocess.Popen[bytes]
    log: Path
    read: int = 0  # bytes of the log

    def check(self) -> None:
        """It serves as before, over both protocols."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/models/m:predict", _V1)
            assert connection.getresponse().read() == b'{"predictions":[]}'
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            infer = channel.unary_unary(_INFER_METHOD)
            assert pb.ModelInferResponse.FromString(infer(_MESSAGE, timeout=ANSWER_S)).model_name == "m"
        assert psutil.Process(self.process.pid).memory_info().rss < MOST_MEMORY

    def logged(self) -> bytes:
        """Return what the log has since it was last asked for."""
        with self.log.open("rb") as log:
            log.seek(self.read)
            lines = log.read()
        self.read += len(lines)
        return lines


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port, grpc_port, log = free_port(), free_port(), tmp_path_factory.mktemp("wire") / "log"
    with log.open("wb") as file:
        command = [sys.executable, "-c", PROGRAM, f"--http_port={port}", f"--grpc_port={grpc_port}"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
    running = Server(port, grpc_port, process, log)

    def serves() -> bool:
        with contextlib.suppress(OSError, grpc.RpcError):
            running.check()
            return True
        return False

    try:
        eventually(serves, "it serves", 60, log.read_text)
        yield running
    finally:
        process.kill()
        process.wait()


def exchange(port: int, sent: bytes, seed: int) -> bytes:
    """Send in one to four segments, and say that no more will come; return all that comes back.

    That is nothing where the server has heard enough: what it has sent is lost at the reset.
    """
    chance = random.Random(seed)
    cuts = sorted(chance.randrange(len(sent) + 1) for _ in range(chance.randrange(4)))
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start, stop in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                connection.sendall(sent[start:stop])
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                received += more
        except TimeoutError:
            raise
        except OSError:
            return b""
    return received


def statuses(received: bytes) -> list[int]:
    """Of the responses, each with its length; what is not a response is an error."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        line = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        assert line, head
        found.append(int(line[1]))
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        received = rest[int(length[1]) if length else 0 :]
    return found


@given(SEEDS)
@example(seed=22565300)  # a client that expects to be asked sends what is not a chunk at once
def test_a_head_or_body_gets_a_response_that_blames_the_client(server: Server, seed: int) -> None:
    (sent,) = damaged(REQUESTS, 1, seed, _HEAD_TOKENS)
    received = exchange(server.port, sent, seed)

    assert [status for status in statuses(received) if status >= 500 and status not in (501, 505)] == []
    server.check()
    assert b"Traceback" not in (lines := server.logged()), lines.decode(errors="replace")


@given(SEEDS)
def test_frames_and_fields_of_http_2_end_no_more_than_their_connection(server: Server, seed: int) -> None:
    """gRPC itself prints a traceback for some calls that their client breaks off."""
    (sent,) = damaged(CALLS, 1, seed, _FRAME_TOKENS)
    exchange(server.grpc_port, sent, seed)

    server.check()
    server.logged()


def test_a_path_that_is_not_utf_8_ends_no_more_than_its_call(server: Server) -> None:
    exchange(server.grpc_port, CALLS[0].replace(b"ModelInfer", b"ModelInfe\xfa"), 0)

    server.check()
    server.logged()
