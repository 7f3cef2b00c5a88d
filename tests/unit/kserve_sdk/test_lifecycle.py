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
from data_plane.health import READY, Health, State
from tests.support.sdk_models import NOBODY, Ready
from transformer_sdk.kserve import Model, ModelRepository, ModelServer, hooks
from transformer_sdk.kserve.errors import ModelNotReady, NoModelReady
from transformer_sdk.kserve.model import InferenceModel
from transformer_sdk.kserve.serving import processes
from transformer_sdk.kserve.serving import repository as serving_repository
from transformer_sdk.kserve.serving.config import ServerConfig
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels
from transformer_sdk.kserve.serving.served import UNREADY
from transformer_sdk.kserve.serving.threads import HookThreads
from transformer_sdk.testing import TransformerServer


def served(repository: ModelRepository) -> HookedModels:
    return HookedModels(repository, HookThreads(1), HookMetrics(CollectorRegistry()))


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


async def test_async_load_and_start_run_in_the_loop_that_serves(started: list[ServerConfig]) -> None:
    model = LoopKeeper()
    await asyncio.to_thread(start, model, Ready("sync"))

    assert [list(config.repository.get_models()) for config in started] == [["sync"]]
    await started[0].start_async_models()
    assert started[0].repository.get_model("m") is model
    assert model.loops == dict.fromkeys(("load", "start"), asyncio.get_running_loop())


async def test_a_server_whose_models_all_say_no_later_does_not_serve(started: list[ServerConfig]) -> None:
    await asyncio.to_thread(start, with_method("load", lambda self: later(False), Model)("m1"), NotLoading("m2"))

    with pytest.raises(NoModelReady, match="m2"):
        await started[0].start_async_models()


class NotLoading(Model):
    async def load(self) -> bool:  # type: ignore[override]
        return False


@pytest.mark.parametrize("name", ["load", "start"])
def test_what_an_awaitable_of_a_sync_hook_gives_is_waited_for(name: str, started: list[ServerConfig]) -> None:
    called: list[str] = []

    async def note() -> bool:
        called.append(name)
        return True

    model = with_method(name, lambda self: note(), Model)("m")
    start(model)

    assert (called, started[0].repository.get_models()) == ([name], {"m": model})


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
        await served(Loading(answer)).load("m")

    assert raised.value.message == f"Model with name m is not ready. {words}"


def unready() -> Model:
    model = Ready("m")
    model.ready = False
    return model


@pytest.mark.parametrize("by", [later, lambda value: value], ids=["async", "sync"])
async def test_a_model_is_served_once_a_load_has_added_it_whatever_that_returns(by: Any) -> None:
    models = served(Loading(lambda repository: by(repository.update(Ready("m")))))
    await models.load("m")

    assert (models.names, models.is_ready("m")) == (("m",), True)


async def test_unloading_waits_for_an_async_stop_in_the_loop_that_serves() -> None:
    hooks.set_serving_loop()
    repository, model = ModelRepository(), LoopKeeper()
    repository.update(model)
    await served(repository).unload("m")

    assert (repository.get_models(), model.loops) == ({}, {"stop": asyncio.get_running_loop()})


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


async def test_models_that_a_program_adds_takes_out_or_replaces_are_served_as_they_are_now() -> None:
    repository, first, second = ModelRepository(), Ready("m"), Ready("m")
    models = served(repository)
    found: list[Any] = [models.names]
    for model in (first, second):
        repository.update(model)
        found.append(models.served("m").model)
    del repository.models["m"]

    assert [*found, models.names] == [(), first, second, ()]


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


async def test_an_async_handler_of_the_loops_errors_runs() -> None:
    handled = asyncio.Event()

    async def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        handled.set()

    processes._as_sync(handle)(asyncio.get_running_loop(), {"message": "lost"})
    await asyncio.wait_for(handled.wait(), 30)


def test_without_a_loop_an_async_hook_is_waited_for_in_one_of_its_own() -> None:
    repository, model = ModelRepository(), LoopKeeper()
    repository.update(model)

    assert contextvars.Context().run(lambda: repository.load("m")) is True
    assert list(model.loops) == ["load"]


# --- readiness


def sick(_: Any) -> Any:
    raise LookupError("sick")


async def sick_later(_: Any) -> Any:
    raise LookupError("sick")


@pytest.mark.parametrize("healthy", [sick, sick_later], ids=["sync", "async"])
def test_a_model_whose_healthy_raises_is_not_ready_and_the_server_goes_on(healthy: Any) -> None:
    with TransformerServer(with_method("healthy", healthy)()) as server:
        replies = [server.get("/v2/models/m/ready"), server.post({"instances": []}), server.get("/v2/health/live")]

    assert [reply.status for reply in replies] == [503, 503, 200]
    assert "its `healthy` raised LookupError: sick" in replies[0].json()["error"]


async def test_a_model_that_does_not_say_whether_it_is_ready_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTHY_TIMEOUT", 0.01)
    repository = ModelRepository()
    repository.update(with_method("healthy", lambda self: asyncio.Event().wait())("m"))

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

    assert (models.names, models.ready) == ((), True)


def test_a_healthy_that_is_sync_counts() -> None:
    with TransformerServer(with_method("healthy", lambda self: False)()) as server:
        assert server.get("/v1/models/m").status == 503


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


@pytest.mark.parametrize("types", [None, {"name": "x"}], ids=["None", "a dict"])
def test_types_that_are_no_list_are_the_models_fault(types: Any) -> None:
    with TransformerServer(with_method("get_input_types", lambda self: types)(), predictor=NOBODY) as server:
        reply = server.get("/v2/models/m")

    assert (reply.status, reply.json()["component"]) == (500, "transformer")
    assert reply.json()["error"].startswith("get_input_types of model m returned ")


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
