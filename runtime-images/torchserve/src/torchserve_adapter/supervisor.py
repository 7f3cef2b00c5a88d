"""The adapter's life: start TorchServe, open the doors, watch all of it, and end for a reason that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchserve_adapter.batching import Wishes
from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.launch import Launch
from torchserve_adapter.process import TorchServe
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from transformer_sdk.model import Models
from transformer_sdk.model_server.serving import Doors, serve
from transformer_sdk.model_store.models import Model
from transformer_sdk.server.metrics import ServerMetrics


@dataclass(frozen=True)
class Service:
    """What is served, and how."""

    properties: Mapping[str, str]  # TorchServe's
    configured: Sequence[Model]
    wishes: Wishes
    alias: str | None


async def supervise(service: Service, launch: Launch, doors: Doors) -> None:
    """Returns after a drain; raises StartError when TorchServe or a model has failed."""
    models = Models((model.name for model in service.configured), service.alias)
    metrics = ServerMetrics()
    async with TorchServe(launch) as torchserve, TorchServeClient(service.properties) as client:
        served = ServedVersions(models, client, service.wishes, metrics.batches)
        watch = ModelWatch(
            service.configured, models, served, client, torchserve, launch.failures,
            registering=service.properties.get("enable_model_api", "").strip().lower() == "true",
        )  # fmt: skip
        await serve(doors, models, metrics, [torchserve.died(), watch.run()], client.metrics)
