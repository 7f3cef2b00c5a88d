"""Calls over gRPC through nginx and HAProxy, whose HTTP/2 is not that of gRPC's own clients."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from data_plane.limits import MAX_GRPC_METADATA, MAX_GRPC_STREAMS
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port
from tests.support.programs import program
from tests.support.waiting import eventually

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
LARGE = 6_000_000  # bytes
OPTIONS = (("grpc.max_receive_message_length", -1),)

_NGINX = """
error_log stderr; pid {folder}/pid; daemon off;
events {{}}
http {{
    access_log off; client_max_body_size 0; large_client_header_buffers 4 32k;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    upstream server {{ server 127.0.0.1:{port}; keepalive 4; }}
    server {{ listen unix:{folder}/socket http2; location / {{ grpc_pass grpc://server; }} }}
}}
"""
_HAPROXY = """
global
    tune.bufsize 32768
defaults
    mode http
    timeout client 60s
    timeout connect 60s
    timeout server 60s
listen server
    bind unix@{folder}/socket proto h2
    http-reuse always
    server s 127.0.0.1:{port} proto h2
"""
_PROXIES = {
    "nginx": (_NGINX, ("-p", "{folder}", "-c", "{folder}/config", "-e", "stderr")),
    "haproxy": (_HAPROXY, ("-f", "{folder}/config")),
}


@contextlib.contextmanager
def running(proxy: str, port: int) -> Iterator[str]:
    """The address of a proxy of the server at this port."""
    config, arguments = _PROXIES[proxy]
    path = program(proxy)
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough for a socket's name
        Path(folder, "config").write_text(config.format(folder=folder, port=port))
        process = subprocess.Popen([path, *(argument.format(folder=folder) for argument in arguments)])
        try:
            eventually(Path(folder, "socket").exists, f"{proxy} listens")
            yield f"unix:{folder}/socket"
        finally:
            process.terminate()
            process.wait()


def request(size: int) -> pb.ModelInferRequest:
    tensor = Tensor.from_numpy("x", np.random.default_rng(0).integers(0, 256, size, np.uint8))
    return wire.request_to_proto(TensorRequest((tensor,), "42"), "m")


@pytest.mark.parametrize("proxy", _PROXIES)
async def test_calls_pass_a_proxy(proxy: str) -> None:
    small, large = request(100), request(LARGE)
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(grpc_port(serving(FakeModel()), max_message_size=2 * LARGE))
        address = stack.enter_context(running(proxy, port))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, OPTIONS))
        infer = channel.unary_unary(INFER, pb.ModelInferRequest.SerializeToString, pb.ModelInferResponse.FromString)

        many = await asyncio.gather(*(infer(small) for _ in range(2 * MAX_GRPC_STREAMS)))
        assert [answer.raw_output_contents for answer in many] == [small.raw_input_contents] * len(many)
        assert (await infer(large)).raw_output_contents == large.raw_input_contents

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await infer(small, metadata=[("x", "a" * MAX_GRPC_METADATA)])
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

        stream = channel.stream_stream(STREAM, pb.ModelInferRequest.SerializeToString)()
        for _ in range(3):
            await stream.write(small)
            assert small.raw_input_contents[0] in await stream.read()
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
