"""What is configured and has no effect is named; what must not be ignored is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from data_plane.limits import MAX_NAMED_SETTINGS, MAX_NOTICES
from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store import notices
from torchserve_compat.store.known_settings import ARCHIVE, PARAMETERS, PROPERTIES, Effect, Runtime, Setting

MAR, TORCHSERVE = Runtime.MAR, Runtime.TORCHSERVE
# Values that are something else than what happens without the setting, as far as 42 does not do.
VALUES: dict[str, Any] = {
    "models": '{"m": {"1.0": {"minWorkers": 1}}}', "model_snapshot": '{"models": {"m": {"1.0": {"marName": "m.mar"}}}}',
    "parallelLevel": "1",
}  # fmt: skip
REFUSED_VALUES = {
    "inference_address": "https://0.0.0.0:8443", "disable_token_authorization": "false", "parallelType": "tp",
}  # fmt: skip


def _with_effect(table: Mapping[str, Setting], effect: Effect) -> list[Any]:
    return [
        pytest.param(runtime, setting.name, id=f"{runtime.value}-{setting.name}")
        for setting in table.values()
        for runtime, outcomes in ((TORCHSERVE, setting.torchserve), (MAR, setting.mar))
        if any(outcome.effect is effect for outcome in outcomes)
    ]


def _outcome(table: Any, runtime: Runtime, name: str, effect: Effect) -> Any:
    setting = table[name]
    outcomes = setting.torchserve if runtime is TORCHSERVE else setting.mar
    return next(outcome for outcome in outcomes if outcome.effect is effect)


@pytest.mark.parametrize(("runtime", "name"), _with_effect(PROPERTIES, Effect.NONE))
def test_a_setting_without_effect_is_named_with_what_to_do(runtime: Runtime, name: str) -> None:
    lines = notices.of_properties(runtime, {name: "42"})

    said = name if name == "keystore_pass" else f"{name} 42"
    assert lines == [f"config.properties: {said} has no effect: {_outcome(PROPERTIES, runtime, name, Effect.NONE).why}"]


@pytest.mark.parametrize(("runtime", "name"), _with_effect(ARCHIVE, Effect.NONE))
def test_a_key_of_an_archive_without_effect_is_named_with_what_to_do(runtime: Runtime, name: str) -> None:
    lines = notices.of_archive(runtime, "a.mar", {name: 42})

    assert lines == [f"a.mar: {name} 42 has no effect: {_outcome(ARCHIVE, runtime, name, Effect.NONE).why}"]


@pytest.mark.parametrize(("runtime", "name"), _with_effect(PARAMETERS, Effect.NONE))
def test_a_parameter_of_a_version_without_effect_is_named_with_what_to_do(runtime: Runtime, name: str) -> None:
    value = VALUES.get(name, "42")

    lines = notices.of_properties(runtime, {"models": json.dumps({"m": {"1.0": {name: value}}})})

    assert lines == [
        f"models in config.properties: model m, version 1.0: {name} {value} has no effect: "
        f"{_outcome(PARAMETERS, runtime, name, Effect.NONE).why}"
    ]


@pytest.mark.parametrize(("runtime", "name"), _with_effect(PROPERTIES, Effect.REFUSED))
def test_a_setting_that_must_not_be_ignored_is_refused(runtime: Runtime, name: str) -> None:
    value = REFUSED_VALUES.get(name, "true")

    with pytest.raises(ConfigurationError) as raised:
        notices.of_properties(runtime, {name: str(value)})

    why = _outcome(PROPERTIES, runtime, name, Effect.REFUSED).why
    assert str(raised.value) == f"config.properties asks for {name}: {value}, {why}."


@pytest.mark.parametrize(("runtime", "name"), _with_effect(ARCHIVE, Effect.REFUSED))
def test_a_key_of_an_archive_that_must_not_be_ignored_is_refused(runtime: Runtime, name: str) -> None:
    value = REFUSED_VALUES.get(name, True)

    with pytest.raises(ConfigurationError) as raised:
        notices.of_archive(runtime, "a.mar", {name: value})

    why = _outcome(ARCHIVE, runtime, name, Effect.REFUSED).why
    assert str(raised.value) == f"a.mar asks for {name}: {value}, {why}."


def test_a_parameter_of_a_version_that_must_not_be_ignored_is_refused() -> None:
    table = {"models": json.dumps({"m": {"1.0": {"parallelLevel": 2}}})}

    with pytest.raises(
        ConfigurationError, match=r"model m, version 1\.0 asks for parallelLevel: 2, a model in several"
    ):
        notices.of_properties(MAR, table)
    assert notices.of_properties(TORCHSERVE, table) == []


NO_NUMBERS = ("-1", "1.5", "2147483648", "[1, 2]", "1_000", "four", "9" * 5000)


@pytest.mark.parametrize("runtime", Runtime)
def test_a_number_of_the_configuration_that_is_none_is_refused(runtime: Runtime) -> None:
    refused = {
        name: {
            value for value in ("0", *NO_NUMBERS) if _is_refused(runtime, {name: value}, f"config.properties: {name}")
        }
        for name, setting in PROPERTIES.items()
        if setting.least is not None
    }

    assert refused == {
        name: set() if PROPERTIES[name].outcome(runtime, "1").effect is Effect.NONE
        else {*NO_NUMBERS, *(["0"] if PROPERTIES[name].least else [])}
        for name in refused
    }  # fmt: skip


@pytest.mark.parametrize("table", [{"models": "%s"}, {"model_snapshot": '{"models": %s}'}])
def test_a_number_of_a_version_that_is_none_is_refused(table: dict[str, str]) -> None:
    for name, setting in PARAMETERS.items():
        for value in ("", *NO_NUMBERS) if setting.least is not None and name != "parallelLevel" else ():
            version = json.dumps({"m": {"1.0": {"marName": "m.mar", name: value}}})

            where = f"{next(iter(table))} in config.properties: model m, version 1.0: {name}"
            assert _is_refused(TORCHSERVE, {key: text % version for key, text in table.items()}, where), (name, value)


def _is_refused(runtime: Runtime, properties: dict[str, str], about: str) -> bool:
    try:
        notices.of_properties(runtime, properties)
    except ConfigurationError as error:
        return str(error).startswith(f"{about} is '") and "write a whole number, " in str(error)
    return False


@pytest.mark.parametrize("runtime", Runtime)
def test_a_number_of_an_archive_that_torchserve_ignores_is_named(runtime: Runtime) -> None:
    yaml = {"batchSize": 0, "responseTimeout": 1.5, "startupTimeout": "60", "jobQueueSize": 2**31, "minWorkers": None}

    assert notices.of_archive(runtime, "a.mar", yaml) == [
        "a.mar: batchSize 0 has no effect, in TorchServe either; write a whole number from 1 to 2147483647",
        "a.mar: responseTimeout 1.5 has no effect, in TorchServe either; write a whole number from 1 to 2147483647",
        'a.mar: startupTimeout: "60" has no effect, in TorchServe either; write a whole number from 1 to '
        "2147483647, without quotes",
        "a.mar: jobQueueSize 2147483648 has no effect, in TorchServe either; write a whole number from 1 to 2147483647",
        "a.mar: minWorkers None has no effect, in TorchServe either; write a whole number from 0 to 2147483647",
    ]
    assert notices.of_archive(runtime, "a.mar", {"minWorkers": 2, "maxWorkers": 1}) == [
        "a.mar: minWorkers 2 has no effect, in TorchServe either; write a maxWorkers that is not below minWorkers",
        "a.mar: maxWorkers 1 has no effect, in TorchServe either; write a maxWorkers that is not below minWorkers",
    ]


@pytest.mark.parametrize("runtime", Runtime)
def test_of_what_is_honoured_and_of_what_happens_anyway_nothing_is_said(runtime: Runtime) -> None:
    honoured = {
        name: VALUES.get(name, "42")
        for name, setting in PROPERTIES.items()
        if setting.outcome(runtime, "42").effect in (Effect.SAME, Effect.OTHERWISE) and not setting.overruled_by
    }
    anyway = {"enable_metrics_api": "TRUE", "metrics_mode": "prometheus", "ts_open_inference_protocol": "oip"}
    blank = {"netty_client_threads": " ", "no_such_setting": ""}

    assert notices.of_properties(runtime, {**honoured, **anyway, **blank}) == []
    assert notices.of_archive(runtime, "a.mar", {"batchSize": 8, "parallelType": "none", "handler": {}, 1: 2}) == []


@pytest.mark.parametrize("name", ["load_models", "models"])
def test_what_a_snapshot_overrules_is_named(name: str) -> None:
    lines = notices.of_properties(MAR, {"model_snapshot": VALUES["model_snapshot"], name: "{not read"})

    assert lines == [f"config.properties: {name} has no effect beside model_snapshot; remove one of them"]


def test_what_torchserve_does_not_know_is_named_with_what_may_be_meant() -> None:
    lines = notices.of_properties(MAR, {"metrics_format": "prometheus", "jobqueue_size": "10", "x\n2026 ERROR": "1"})

    assert lines == [
        "config.properties: metrics_format, jobqueue_size, 'x\\n2026 ERROR': no setting of TorchServe 0.12; "
        "did you mean metrics_mode, job_queue_size?"
    ]


def test_a_key_that_is_nearly_torchserves_is_named() -> None:
    lines = notices.of_archive(MAR, "a.mar", {"batch_size": 8, "my_own": 1})

    assert lines == ["a.mar: batch_size is left to the handler; did you mean batchSize?"]


def test_an_unknown_parameter_of_a_version_is_named() -> None:
    lines = notices.of_properties(MAR, {"models": '{"m": {"1.0": {"batchsize": 8}}}'})

    assert lines == ["models in config.properties: model m, version 1.0: batchsize: no parameter of TorchServe 0.12"]


def test_many_unknown_names_are_counted_and_none_is_told_at_length() -> None:
    names = [f"unknown.{number:05}" for number in range(50_000)] + ["a" * 10_000]

    (line,) = notices.of_properties(MAR, dict.fromkeys(names, "1"))

    assert line.startswith("config.properties: unknown.00000, unknown.00001, ")
    assert f" and {len(names) - MAX_NAMED_SETTINGS} more: no setting" in line
    assert len(line) < 1000


def test_many_lines_are_counted() -> None:
    models = {f"m{number}": {"1.0": {"runtimeType": "LSP"}} for number in range(MAX_NOTICES + 7)}

    lines = notices.of_properties(MAR, {"models": json.dumps(models)})

    assert (len(lines), lines[-1]) == (MAX_NOTICES + 1, "config.properties: 7 more like these")


def test_a_value_cannot_forge_a_line_of_the_log() -> None:
    (line,) = notices.of_properties(MAR, {"netty_client_threads": "4\n2026-01-01 ERROR forged"})

    assert "netty_client_threads '4\\n2026-01-01 ERROR forged' has no effect" in line


def test_a_password_is_not_told() -> None:
    (line,) = notices.of_properties(MAR, {"keystore_pass": "changeit"})

    assert "changeit" not in line
