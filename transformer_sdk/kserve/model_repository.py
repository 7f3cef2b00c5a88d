"""The models of a server by name, for those who load and unload them while it runs."""

from __future__ import annotations

from pathlib import Path

from transformer_sdk.kserve.model import BaseKServeModel

MODEL_MOUNT_DIRS = "/mnt/models"


class ModelRepository:
    """Override `load` (or `load_model`) to serve what comes later."""

    def __init__(self, models_dir: str = MODEL_MOUNT_DIRS) -> None:
        self.models: dict[str, BaseKServeModel] = {}
        self.models_dir = models_dir

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
        """Whether there is such a model and it can answer."""
        model = self.get_model(name)
        return model is not None and await model.healthy()

    def update(self, model: BaseKServeModel, name: str | None = None) -> None:
        """Add the model, or put it in place of the one of its name; `name` is another name for it."""
        self.models[name or model.name] = model

    def load(self, name: str) -> bool:
        """Whether the model is there now."""
        return self.load_model(name)

    def load_model(self, name: str) -> bool:
        """Whether the model is there now; a repository that can load overrides this."""
        model = self.models.get(name)
        return model is not None and is_loaded(model)

    def unload(self, name: str) -> None:
        """Stop the model and forget it; raises KeyError."""
        if name not in self.models:
            raise KeyError(f"model with name {name} does not exist")
        model = self.models.pop(name)
        model.stop()
        if model.engine:
            model.stop_engine()


def is_loaded(model: BaseKServeModel) -> bool:
    """Whether it is, or is now: a `load` may have no return and set `ready` alone."""
    return bool(model.ready or model.load() or model.ready)
