"""Clients that send requests at a steady rate, whatever comes back, and count every failure with its cause.

Open loop: each request is sent when it is due. Connections are kept alive, and no client sends a request again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import aiohttp
import grpc
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

TIMEOUT = 10.0  # seconds until a request counts as failed
_GRPC_OPTIONS = (("grpc.enable_retries", 0),)

Ask = Callable[[], Awaitable[str | None]]  # sends one request, and returns why it failed


@dataclass
class Sent:
    """What became of the requests of one client so far."""

    requests: int = 0
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class HttpTarget:
    """A model behind an ingress, by the v2 protocol; ``x`` is doubled by it."""

    address: str
    host: str
    model: str

    async def run(self, load: Callable[[Ask], Awaitable[None]]) -> None:
        """Give ``load`` a client with a pool of connections."""
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        url = f"http://{self.address}/v2/models/{self.model}/infer"

        async def ask() -> str | None:
            async with session.post(url, json={"inputs": [tensor]}) as response:
                text = await response.text()
                if response.status != 200:
                    return f"{response.status} {text}"
                return None if '"data":[2.0,4.0,6.0,8.0]' in text.replace(" ", "") else f"wrong answer: {text}"

        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with aiohttp.ClientSession(headers={"Host": self.host}, timeout=timeout) as session:
            await load(ask)


@dataclass(frozen=True)
class GrpcTarget:
    """The same model by gRPC, on one connection."""

    address: str
    host: str
    model: str

    async def run(self, load: Callable[[Ask], Awaitable[None]]) -> None:
        """Give ``load`` a client with a connection."""
        tensor = pb.ModelInferRequest.InferInputTensor(
            name="x", datatype="FP32", shape=[1, 4], contents=pb.InferTensorContents(fp32_contents=[1, 2, 3, 4])
        )
        request = pb.ModelInferRequest(model_name=self.model, inputs=[tensor])

        async def ask() -> str | None:
            response = await stub.ModelInfer(request, timeout=TIMEOUT)
            output = response.outputs[0]
            data = list(output.contents.fp32_contents) or response.raw_output_contents[0]
            return None if data in ([2, 4, 6, 8], _DOUBLED) else f"wrong answer: {data!r}"

        options = (*_GRPC_OPTIONS, ("grpc.default_authority", self.host))
        async with grpc.aio.insecure_channel(self.address, options=options) as channel:
            stub = GRPCInferenceServiceStub(channel)
            await load(ask)


_DOUBLED = b"\x00\x00\x00@\x00\x00\x80@\x00\x00\xc0@\x00\x00\x00A"  # 2, 4, 6, 8 as FP32


class SteadyLoad:
    """Sends ``rate`` requests a second to each target, from a thread of its own, while the context is entered."""

    def __init__(self, targets: Sequence[HttpTarget | GrpcTarget], rate: float) -> None:
        self.sent = {target: Sent() for target in targets}
        self._rate = rate
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send_to_all()))

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def requests(self) -> int:
        """How many were sent."""
        return sum(sent.requests for sent in self.sent.values())

    @property
    def failures(self) -> Counter[str]:
        """How many failed, by the host and the cause."""
        items = ((target, dict(sent.failures)) for target, sent in self.sent.items())
        return Counter({f"{target.host}: {cause}": n for target, failures in items for cause, n in failures.items()})

    async def _send_to_all(self) -> None:
        await asyncio.gather(*(self._send_to(target) for target in self.sent))

    async def _send_to(self, target: HttpTarget | GrpcTarget) -> None:
        async def load(ask: Ask) -> None:
            loop, asked = asyncio.get_running_loop(), set[asyncio.Task[None]]()
            due = loop.time()
            while not self._ends.is_set():
                task = loop.create_task(self._count(ask, self.sent[target]))
                asked.add(task)
                task.add_done_callback(asked.discard)
                due += 1 / self._rate
                await asyncio.sleep(due - loop.time())
            await asyncio.gather(*asked)

        await target.run(load)

    async def _count(self, ask: Ask, sent: Sent) -> None:
        sent.requests += 1
        try:
            cause = await ask()
        except grpc.aio.AioRpcError as error:
            cause = f"{error.code().name} {error.details()}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            cause = f"{type(error).__name__} {error}"
        if cause:
            sent.failures[cause] += 1
