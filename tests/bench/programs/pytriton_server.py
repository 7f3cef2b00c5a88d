"""``pytriton_server.py WORK FOLDER PORT OPTIONS``: the work behind Triton; OPTIONS are its settings as JSON."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import handling
import numpy
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

_INPUTS = {"mnist": (numpy.float32, (784,)), "noop": (numpy.int64, (1,))}
_TEXT = (bytes, (1,))
_MOST = 32  # in a batch


class Infer:
    """One of these is one instance of the model, with a thread of its own."""

    def __init__(self, work: str, folder: Path) -> None:
        self._handle = handling.load(work, folder)
        self._is_tensor = work == "mnist"

    def __call__(self, requests: list[Any]) -> list[dict[str, Any]]:
        rows = [row for request in requests for row in request["data"]]
        answers = iter(self._handle([{"data": row if self._is_tensor else row[0]} for row in rows]))
        return [
            {"predictions": numpy.array([[next(answers)] for _ in request["data"]], numpy.int64)}
            for request in requests
        ]


def main(work: str, folder: Path, port: int, options: dict[str, Any]) -> None:
    config = TritonConfig(
        http_address="127.0.0.1", http_port=port, allow_grpc=False, allow_metrics=False, log_verbose=0
    )
    dtype, shape = _INPUTS.get(work, _TEXT)
    batcher = DynamicBatcher(max_queue_delay_microseconds=options["delay_us"])
    with Triton(config=config) as triton:
        triton.bind(
            model_name=work,
            infer_func=[Infer(work, folder) for _ in range(options["instances"])],
            inputs=[Tensor(name="data", dtype=dtype, shape=shape)],
            outputs=[Tensor(name="predictions", dtype=numpy.int64, shape=(1,))],
            config=ModelConfig(max_batch_size=_MOST, batcher=batcher),
            strict=False,
        )
        triton.run()
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
