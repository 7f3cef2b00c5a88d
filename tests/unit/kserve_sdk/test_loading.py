"""Which models a server takes when it starts, and when it is told to load one."""

from __future__ import annotations

import contextvars
import sys

import pytest

from transformer_sdk.kserve import Model, ModelRepository, ModelServer
from transformer_sdk.kserve.errors import NoModelReady
from transformer_sdk.kserve.serving import processes
from transformer_sdk.kserve.serving.config import ServerConfig


class Returning(Model):
    def load(self) -> bool:
        return True


class Silent(Model):
    def load(self) -> None:  # type: ignore[override]
        self.ready = True


class Failing(Model):
    def load(self) -> bool:
        return False


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    configs: list[ServerConfig] = []
    monkeypatch.setattr(processes, "run", configs.append)
    monkeypatch.setattr(sys, "argv", ["program", "--configure_logging=false"])
    return configs


@pytest.mark.parametrize("kind", [Returning, Silent])
def test_a_model_that_is_loaded_is_served_whether_load_returns_or_not(
    kind: type[Model], started: list[ServerConfig]
) -> None:
    model = kind("m")
    contextvars.copy_context().run(lambda: ModelServer().start([model]))

    assert [config.repository.get_models() for config in started] == [{"m": model}]


def test_a_server_whose_models_all_say_no_does_not_start(started: list[ServerConfig]) -> None:
    with pytest.raises(NoModelReady):
        contextvars.copy_context().run(lambda: ModelServer().start([Failing("m")]))

    assert started == []


@pytest.mark.parametrize(("kind", "loaded"), [(Returning, True), (Silent, True), (Failing, False)])
def test_a_repository_tells_whether_a_model_is_loaded_now(kind: type[Model], loaded: bool) -> None:
    repository = ModelRepository()
    repository.update(kind("m"))

    assert repository.load("m") is loaded
    assert repository.load("nobody") is False
