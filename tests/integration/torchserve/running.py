"""The adapter as a process, on free ports."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import psutil

from tests.support.runtimes import Answer, Request, Runtime


class Adapter(Runtime):
    """The adapter of `model_dir`, with the Java that it finds by itself.

    Its workers have torch only if they are told to.
    """

    api_port: int  # of TorchServe's management API, where a test has it turned on

    def __init__(self, model_dir: Path, *, has_torch: bool = False, **environment: str) -> None:
        super().__init__("adapter", model_dir, has_torch=has_torch, preexec_fn=None, JAVA_HOME="", **environment)
        self.model_dir = model_dir

    def wait_all_ready(self) -> Self:
        self.wait_until(lambda: self.get("/v2/health/ready").status == 200, "all models are ready")
        return self

    def request(self, method: str, path: str, body: bytes = b"", port: int | None = None, **headers: str) -> Answer:
        """Headers are named as Python names things."""
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return self.send(Request(method, path, body, named), port)

    def torchserve(self) -> psutil.Process:
        return next(p for p in self.children() if "org.pytorch.serve.ModelServer" in p.cmdline())

    def workers(self) -> list[psutil.Process]:
        return [p for p in self.children() if any("model_service_worker" in part for part in p.cmdline())]


def model_dir(folder: Path, config: str, store: str = "model-store") -> Path:
    """A folder as the storage initializer leaves it."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "config.properties").write_text(config)
    (folder / store).mkdir()
    return folder
