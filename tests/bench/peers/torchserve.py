"""TorchServe alone, as its users tune it, and KServe's model server in front of it.

Its access log and its log lines per request are off in every setting: we turn them off too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.archives import model_folder
from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server, free_port
from tests.bench.work import Question, Work
from torchserve_adapter.launch import find_java

QUIET = """<Configuration status="error">
  <Appenders><Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="%m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class TorchServe:
    """With the kserve envelope, which speaks v1 and loses all but the first request of a batch: so without batches."""

    name: str = "TorchServe"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return {f"batchSize 1, {workers} workers": {"minWorkers": workers} for workers in {1, cores}}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [torchserve(place, place.port, setting, service_envelope="kserve")]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


@dataclass(frozen=True)
class NativeTorchServe:
    """Without an envelope, so that its own batching works; it cannot speak v1 then."""

    name: str = "TorchServe, native batching"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        # The delay is waited for whenever a batch does not fill, so a long one costs where few clients ask.
        batches = [(8, 5), (16, 5), (32, 10)] if work.name == "mnist" and cores == 1 else [(16, 5)]
        return {
            f"batchSize {size}, {delay} ms, {workers} workers": {
                "minWorkers": workers,
                "batchSize": size,
                "maxBatchDelay": delay,
            }
            for size, delay in batches
            for workers in {1, cores}
        }

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [torchserve(place, place.port, setting)]

    def question(self, work: Work, server: Server) -> Question:
        return work.native()


@dataclass(frozen=True)
class KServeHop:
    """KServe's model server passes each request on to TorchServe; both share the cores.

    It has one process: with more, kserve 0.21 answers that it could not find its predictor.
    """

    name: str = "KServe's ModelServer + TorchServe"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return {f"{workers} workers": {"minWorkers": workers} for workers in {1, cores}}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        behind, logging = free_port(), place.folder / "logging.json"
        logging.write_text(json.dumps({"version": 1, "loggers": {"uvicorn": {"level": "WARNING"}}}))
        hop = (
            place.python("kserve"), PROGRAMS / "kserve_hop.py", f"--model_name={place.work.name}",
            f"--predictor_host=127.0.0.1:{behind}", f"--http_port={place.port}", "--enable_grpc=false",
            "--enable_latency_logging=false", f"--log_config_file={logging}",
        )  # fmt: skip
        predictor = torchserve(place, behind, setting, service_envelope="kserve")
        return [predictor, Command(hop, place.environment())]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


def torchserve(place: Place, port: int, model: Mapping[str, int], **properties: str) -> Command:
    """TorchServe itself, from its own environment."""
    entry = {"defaultVersion": True, "marName": f"{place.work.name}.mar", "maxWorkers": model["minWorkers"],
             "responseTimeout": 120, **model}  # fmt: skip
    addresses = {name: f"http://127.0.0.1:{free_port()}" for name in ("management_address", "metrics_address")}
    ports = {f"grpc_{name}_port": str(free_port()) for name in ("inference", "management")}
    folder = model_folder(place, {
        "inference_address": f"http://127.0.0.1:{port}", **addresses, **ports, "load_models": f"{place.work.name}.mar",
        "models": json.dumps({place.work.name: {"1.0": entry}}), **properties,
    })  # fmt: skip
    logging = place.folder / "log4j2.xml"
    logging.write_text(QUIET)
    python = place.python("torchserve")
    argv = (
        python.with_name("torchserve"), "--foreground", "--ncs", "--disable-token-auth", "--enable-model-api",
        f"--model-store={folder / 'model-store'}", f"--ts-config={folder / 'config' / 'config.properties'}",
        f"--log-config={logging}",
    )  # fmt: skip
    java_home = find_java(place.options.environment).parents[1]
    path = f"{python.parent}{os.pathsep}{place.environment()['PATH']}"
    return Command(argv, place.environment(PATH=path, JAVA_HOME=java_home, **ONE_THREAD))
