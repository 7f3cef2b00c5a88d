"""The models of a server by name, for those who load and unload them while it runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from transformer_sdk.kserve.hooks import call, done, finish
from transformer_sdk.kserve.model import BaseKServeModel

MODEL_MOUNT_DIRS = "/mnt/models"


class ModelRepository:
    """Override `load` (or `load_model`) to serve what comes later; it may be async, as `unload` may."""

    def __init__(self, models_dir: str = MODEL_MOUNT_DIRS) -> None:
        self.models: dict[str, BaseKServeModel] = {}
        self.models_dir = models_dir
        self._unloaded: dict[str, BaseKServeModel] = {}

    def load_models(self) -> None:
        """Load every folder of `models_dir`."""
        for folder in Path(self.models_dir).iterdir():
            if folder.is_dir():
                self.load_model(folder.name)

    def set_models_dir(self, models_dir: str) -> None:
        self.models_dir = models_dir

    def get_model(self, name: str) -> BaseKServeModel | None:
        return self.models.get(name)

    def get_models(self) -> dict[str, BaseKServeModel]:
        return self.models

    async def is_model_ready(self, name: str) -> bool:
        """Whether there is such a model and it can serve requests."""
        model = self.get_model(name)
        return model is not None and bool(await call(model.healthy))

    def update(self, model: BaseKServeModel, name: str | None = None) -> None:
        """Add the model, or put it in place of the one of its name; `name` is another name for it."""
        self.models[name or model.name] = model
        self._unloaded.pop(name or model.name, None)

    def load(self, name: str) -> bool:
        """Whether the model is there now."""
        return self.load_model(name)

    def load_model(self, name: str) -> bool:
        """Return whether the model is loaded now, which may have been unloaded before.

        A repository that can load other models overrides this.
        """
        if name in self._unloaded and name not in self.models:
            return self._load_again(name)
        return name in self.models and finish(is_loaded(self.models[name]))

    def unload(self, name: str) -> Any:
        """Stop the model and serve it no longer; raises KeyError."""
        if name not in self.models:
            raise KeyError(f"model with name {name} does not exist")
        model = self.models[name]
        finish(model.stop())
        if model.engine:
            finish(model.stop_engine())
        del self.models[name]
        if not model.engine:  # an engine is started with the server only
            self._unloaded[name] = model

    def _load_again(self, name: str) -> bool:
        """Load and start a model that was unloaded; return whether it is loaded now."""
        model = self._unloaded[name]
        model.ready = False
        loaded = is_loaded(model)
        if inspect.isawaitable(loaded):
            started: bool = finish(self._start_again(model, name, loaded))
            return started
        if loaded:
            finish(model.start())
            self.update(model, name)
        return bool(loaded)

    async def _start_again(self, model: BaseKServeModel, name: str, loading: Awaitable[bool]) -> bool:
        if loaded := await loading:
            await done(model.start())
            self.update(model, name)
        return loaded


def is_loaded(model: BaseKServeModel) -> bool | Awaitable[bool]:
    """Return whether the model is loaded: a `load` may return nothing and only set `ready`."""
    if model.ready:
        return True
    result: Any = model.load()
    return _is_loaded_later(model, result) if inspect.isawaitable(result) else bool(result or model.ready)


async def _is_loaded_later(model: BaseKServeModel, loading: Awaitable[Any]) -> bool:
    return bool(await done(loading) or model.ready)
