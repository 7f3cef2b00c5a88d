"""Hooks beside requests, sync and async: loading, starting, readiness, and the end of a model."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from data_plane import limits
from data_plane.errors import Unsupported
from data_plane.health import READY, Health, State
from tests.support.sdk_models import Ready
from transformer_sdk.kserve import Model, ModelRepository, ModelServer
from transformer_sdk.kserve.errors import ModelNotReady, NoModelReady
from transformer_sdk.kserve.model import InferenceModel
from transformer_sdk.kserve.serving import processes
from transformer_sdk.kserve.serving import repository as serving_repository
from transformer_sdk.kserve.serving.config import ServerConfig
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels, UsersRepository
from transformer_sdk.kserve.serving.served import UNREADY
from transformer_sdk.kserve.serving.threads import HookThreads


def served(repository: ModelRepository) -> HookedModels:
    return HookedModels(repository, HookThreads(1), HookMetrics(CollectorRegistry()))


def loading(repository: ModelRepository) -> UsersRepository:
    return UsersRepository(served(repository), repository)


def with_method(name: str, function: Callable[..., Any], base: type[Any] = Ready) -> Any:
    return type("Made", (base,), {name: function})


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


class LoopKeeper(Model):
    """Keeps the loops that its hooks ran in."""

    def __init__(self, name: str = "m") -> None:
        super().__init__(name)
        self.loops: dict[str, asyncio.AbstractEventLoop] = {}

    async def load(self) -> bool:  # type: ignore[override]
        self.loops["load"] = asyncio.get_running_loop()
        return True

    async def start(self) -> None:  # type: ignore[override]
        self.loops["start"] = asyncio.get_running_loop()
        self.ready = True

    async def stop(self) -> None:  # type: ignore[override]
        self.loops["stop"] = asyncio.get_running_loop()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    configs: list[ServerConfig] = []
    monkeypatch.setattr(processes, "run", configs.append)
    monkeypatch.setattr(sys, "argv", ["program", "--configure_logging=false"])
    return configs


def start(*models: Any) -> None:
    contextvars.copy_context().run(lambda: ModelServer().start(list(models)))


async def test_a_server_whose_models_all_say_no_later_does_not_serve(started: list[ServerConfig]) -> None:
    await asyncio.to_thread(start, with_method("load", lambda self: later(False), Model)("m1"), NotLoading("m2"))

    with pytest.raises(NoModelReady, match="m2"):
        await started[0].start_async_models()


class NotLoading(Model):
    async def load(self) -> bool:  # type: ignore[override]
        return False


# --- loading and unloading by request


class Loading(ModelRepository):
    """Loads by whatever a test says."""

    def __init__(self, answer: Callable[[Loading], Any]) -> None:
        super().__init__()
        self.answer = answer

    def load(self, name: str) -> Any:
        return self.answer(self)


def fails(_: Loading) -> Any:
    raise LookupError("no such folder")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fails, "Its load raised LookupError: no such folder"),
        (lambda _: None, "The repository's load has added no model of this name."),
        (lambda _: later(False), "The repository's load returned False."),
        (lambda repository: repository.update(unready()), "It reports that it is not ready."),
    ],
    ids=["raises", "adds nothing", "says no", "adds what is not ready"],
)
async def test_a_load_that_fails_is_told_with_its_cause(answer: Any, words: str) -> None:
    with pytest.raises(ModelNotReady) as raised:
        await loading(Loading(answer)).load("m")

    assert raised.value.message == f"Model with name m is not ready. {words}"


@pytest.mark.parametrize(
    "hooks",
    [{}, {"load": lambda self: later(True), "start": lambda self: later(None)}, {"stop": lambda self: later(None)}],
    ids=["sync", "async", "whose stop leaves it ready"],
)
@pytest.mark.parametrize("name", ["m", "alias"])
async def test_a_model_that_was_unloaded_is_loaded_and_started_again(hooks: dict[str, Any], name: str) -> None:
    told: list[str] = []

    def telling(hook: str) -> Callable[..., Any]:
        def tell(self: Model) -> Any:
            told.append(hook)
            self.ready = hook != "stop"
            return hooks[hook](self) if hook in hooks else True

        return tell

    model = type("Telling", (Ready,), {hook: telling(hook) for hook in ("load", "start", "stop")})("m")
    repository = ModelRepository()
    repository.update(model, name)
    models = served(repository)
    by_request = UsersRepository(models, repository)

    await by_request.unload(name)
    assert (models.names, models.reason) == ((), "every model has been unloaded")
    await by_request.load(name)

    assert (models.names, models.reason, repository.get_model(name)) == ((name,), "", model)
    assert told == ["stop", "load", "start"]


async def test_a_model_that_was_unloaded_and_cannot_be_loaded_again_stays_away() -> None:
    repository = ModelRepository()
    repository.update(with_method("load", lambda self: False)("m"))
    models = served(repository)
    by_request = UsersRepository(models, repository)
    await by_request.unload("m")

    for _ in range(2):
        with pytest.raises(ModelNotReady, match="The repository's load returned False"):
            await by_request.load("m")

    assert models.names == ()


def test_models_are_loaded_by_request_where_that_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--configure_logging=false"])
    by_default = contextvars.copy_context().run(ModelServer)
    monkeypatch.setattr(sys, "argv", ["program", "--configure_logging=false", "--enable_model_api=true"])
    by_flag = contextvars.copy_context().run(ModelServer)

    enabled = [one._config().enable_model_api for one in (by_default, by_flag)]
    assert enabled == [False, True]


async def test_unloading_that_is_not_enabled_is_refused_with_how_to_enable_it() -> None:
    with pytest.raises(Unsupported) as raised:
        await served(ModelRepository()).unload("m", "127.0.0.1")

    assert raised.value.message == (
        "This server does not load or unload models while it runs; enable it with the argument --enable_model_api=true."
    )


def unready() -> Model:
    model = Ready("m")
    model.ready = False
    return model


async def test_at_the_end_a_model_that_cannot_be_stopped_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stop(self: Any) -> None:
        raise LookupError("held")

    repository, model = ModelRepository(), LoopKeeper("other")
    repository.update(with_method("stop", stop)("m"))
    repository.update(model)
    await served(repository).stop()

    assert list(model.loops) == ["stop"]
    assert "model m could not be stopped" in caplog.messages


async def test_a_repository_that_fails_to_tell_its_models_ends_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(ModelRepository):
        left = 0
        answered = asyncio.Event()

        def get_models(self) -> Any:
            if self.left > 0:
                self.left -= 1
                raise OSError("no bucket")
            self.answered.set()
            return super().get_models()

    monkeypatch.setattr(serving_repository, "_REFRESH_S", 0)
    repository, model = Failing(), Ready("m")
    models, repository.left = served(repository), 3
    repository.update(model)
    repository.answered.clear()
    keeping = asyncio.create_task(models.keep_fresh())
    await repository.answered.wait()
    keeping.cancel()

    assert models.names == ("m",)
    assert caplog.messages == ["the readiness of the models cannot be checked: OSError: no bucket"]


def test_without_a_loop_an_async_hook_is_waited_for_in_one_of_its_own() -> None:
    repository, model = ModelRepository(), LoopKeeper()
    repository.update(model)

    assert contextvars.Context().run(lambda: repository.load("m")) is True
    assert list(model.loops) == ["load"]


# --- readiness


async def test_a_model_that_does_not_say_whether_it_is_ready_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(limits, "HEALTHY_TIMEOUT", 0.01)
    repository = ModelRepository()
    repository.update(with_method("healthy", silent)("m"))

    reason = "did not report within 0.01 s whether it is ready"
    assert await served(repository).served("m").health() == Health(State.UNREADY, reason)


async def test_a_model_that_is_unloaded_by_another_request_while_it_is_asked_is_gone() -> None:
    repository = ModelRepository()
    repository.update(with_method("healthy", lambda self: False)("m"))
    models = served(repository)
    one = models.served("m")
    repository.unload("m")
    assert models.names == ()

    await one.refresh(models)

    assert (models.names, models.ready) == ((), False)


async def test_a_repository_that_says_itself_whether_models_are_ready_is_asked() -> None:
    class Closed(ModelRepository):
        async def is_model_ready(self, name: str) -> bool:
            return name != "m"

    repository = Closed()
    for name in ("m", "n"):
        repository.update(Ready(name))
    models = served(repository)

    assert [await models.served(name).health() for name in ("m", "n")] == [UNREADY, READY]


async def test_a_model_that_answers_nothing_is_refused_by_name() -> None:
    repository = ModelRepository()
    repository.update(object.__new__(type("Bare", (InferenceModel.__base__,), {"__init__": None})), "m")  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="Model m is a Bare, which answers no requests"):
        served(repository)


@pytest.mark.parametrize(
    ("variable", "given", "seconds"), [(None, {}, 30), ("300", {}, 300), ("300", {"grace_period": 7}, 7)]
)
def test_requests_have_the_time_after_the_signal_that_the_operator_sets(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, given: dict[str, int], seconds: int
) -> None:
    monkeypatch.delenv("GRACE_PERIOD", raising=False)
    if variable:
        monkeypatch.setenv("GRACE_PERIOD", variable)

    server = contextvars.copy_context().run(lambda: ModelServer(**given))

    assert server.grace_period == seconds
