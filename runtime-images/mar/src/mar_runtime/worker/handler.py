"""A loaded handler, in a worker process. Imports torch and TorchServe's wheel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import ts
from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl

from data_plane import gpu
from mar_runtime.metrics.collect import collect_samples, take_samples
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.worker.continuous import RunningBatch
from torchserve_compat.worker.loading import HandlerLoader, describe

log = logging.getLogger(__name__)
# TorchServe's handlers warn, when they are imported, of packages that few models use.
_their_log = logging.getLogger("ts.torch_handler.base_handler")
_their_log.addFilter(lambda record: not record.getMessage().endswith(" not enabled"))


class Handler:
    """One handler, loaded; raises HandlerNotLoaded."""

    def __init__(self, spec: HandlerSpec) -> None:
        torch.set_num_threads(spec.threads)
        loader = HandlerLoader(lambda _: None, decodes=spec.decodes)
        try:
            service = loader.load(
                spec.model, spec.folder, spec.handler, spec.gpu, spec.batch_size, spec.envelope,
                spec.limit_max_image_pixels, _metrics(spec),
            )  # fmt: skip
        except BaseException as error:
            log.error("model %s could not be loaded", spec.model, exc_info=error)
            raise HandlerNotLoaded(describe(spec.model, spec.folder, error).document()) from error
        self._spec = spec
        self._context = service.context
        self._calls = loader.calls
        self.has_lost_gpu = False

    def run_frame(self, frame: bytes, send_piece: Callable[[bytes], None]) -> bytes:
        """Return the frame of the result for the frame of a batch, with the metrics that the handler reported.

        `send_piece` gets the frames of pieces.
        """
        batch = frames.decode_batch(frame)
        result = self._calls.run(batch, self._context, lambda piece: send_piece(frames.encode(piece)))
        self._look_after_failure(result)
        if samples := take_samples():
            result = frames.HandlerResult(result.responses, result.seconds, result.failure, samples)
        return frames.encode(result)

    def running_batch(self) -> RunningBatch[int]:
        """Return an empty running batch."""
        return self._calls.running_batch()

    def step(self, batch: RunningBatch[int]) -> list[tuple[int, frames.Piece | frames.HandlerResult]]:
        """Call the handler once; return a piece or result for each request. Reported metrics go with a result."""
        outputs = batch.step(self._context)
        for _, one in outputs:
            self._look_after_failure(one)
        samples = take_samples() if any(isinstance(one, frames.HandlerResult) for _, one in outputs) else []
        for place, (number, one) in enumerate(outputs):
            if samples and isinstance(one, frames.HandlerResult):
                outputs[place] = number, frames.HandlerResult(one.responses, one.seconds, one.failure, samples)
                break
        return outputs

    def _look_after_failure(self, result: frames.Piece | frames.HandlerResult) -> None:
        if isinstance(result, frames.HandlerResult) and result.failure and not self.has_lost_gpu:
            self.has_lost_gpu = gpu.is_lost()

    def exit_message(self, error: BaseException) -> str:
        """Return the exception that ended the handler, and its place."""
        failure = describe(self._spec.model, self._spec.folder, error)
        at = f" (at {failure.where})" if failure.where else ""
        return f"{failure.type}: {failure.message}{at}"


def _metrics(spec: HandlerSpec) -> Any:
    """Return TorchServe's metrics cache; reported values are collected as samples instead of printed."""
    file = spec.metrics or str(Path(ts.__file__).parent / "configs" / "metrics.yaml")
    logging.disable(logging.INFO)  # each worker would say that it has read the file
    cache = MetricsCacheYamlImpl(file)
    logging.disable(logging.NOTSET)
    cache.initialize_cache()
    cache.model_name = spec.model
    collect_samples()
    return cache
