"""What is changed in a user's configuration, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from data_plane.limits import MAX_REQUEST
from data_plane.model_server.errors import ConfigurationError
from torchserve_adapter.batching import FRAME_BYTES
from torchserve_adapter.rules import TorchServeInputs, as_written, effective
from torchserve_compat.store.known_settings import LEAST, PROPERTIES, Effect, Runtime
from torchserve_compat.store.properties import dump, parse

TAKEN = {0: 50000, 8081: 50081}
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
TOKENS = "tokens would lock out the adapter; TorchServe is on loopback only"
BLANKS = "without the blanks, which TorchServe takes for parts of the names"
ADAPTER_ONLY = "all requests go through the adapter"
# What becomes of an empty configuration: the least that is always set.
MINIMUM = {
    "model_store": "/mnt/models/model-store",
    "inference_address": "http://127.0.0.1:50000",
    "management_address": "http://127.0.0.1:50000",
    "metrics_address": "http://127.0.0.1:50000",
    "grpc_inference_address": "127.0.0.1",
    "grpc_management_address": "127.0.0.1",
    "load_models": "all",
    "service_envelope": "kserve",
    "disable_token_authorization": "true",
    "enable_metrics_api": "true",
    "metrics_mode": "prometheus",
    "disable_system_metrics": "true",
    "max_request_size": str(4 * MAX_REQUEST + FRAME_BYTES),
    "max_response_size": str(32 * 6553500),
    "vmargs": JVM,
}

# One version of a model with all that TorchServe needs in a snapshot.
WHOLE: dict[str, Any] = {
    "marName": "x.mar",
    "minWorkers": 1,
    "maxWorkers": 1,
    "batchSize": 1,
    "maxBatchDelay": 100,
    "defaultVersion": True,
}


def snapshot(**models: Any) -> dict[str, Any]:
    return {"modelCount": len(models), "models": models}


def around(
    environment: Mapping[str, str] | None = None,
    store: str = "model-store",
    memory_bytes: int | None = None,
    max_request_size: int | None = None,
    flags: Mapping[str, str] | None = None,
) -> TorchServeInputs:
    return TorchServeInputs(
        model_dir=Path("/mnt/models"),
        environment=environment or {},
        is_directory=lambda path: path == Path("/mnt/models", store),
        port_for=lambda port: TAKEN.get(port, port),
        memory_bytes=memory_bytes,
        max_request_size=max_request_size,
        flags=flags or {},
    )


def test_an_empty_configuration_gets_the_minimum_and_each_setting_is_said() -> None:
    draft = effective({}, around())

    assert draft.properties == MINIMUM
    assert [change.setting for change in draft.changes] == list(MINIMUM)


def test_a_users_own_settings_stay() -> None:
    own = {
        "inference_address": "http://127.0.0.1:8085",
        "model_store": "/mnt/models/model-store",
        "service_envelope": "json",
        "number_of_netty_threads": "4",
        "vmargs": "-Xmx2g",
        "disable_system_metrics": "false",
        "load_models": "a.mar",
        "grpc_inference_port": "7080",
    }

    assert effective(own, around()).properties == {**MINIMUM, **own}


def test_the_command_line_wins_over_the_environment_and_this_over_the_file() -> None:
    given = {"enable_envvars_config": "true", "load_models": "a.mar", "enable_model_api": "false"}
    inputs = around({"TS_LOAD_MODELS": "b.mar"}, flags={"load_models": "c.mar", "enable_model_api": "true"})

    written = as_written(given, inputs)

    assert (written["load_models"], written["enable_model_api"]) == ("c.mar", "true")
    assert effective(given, inputs).properties["load_models"] == "c.mar"


@pytest.mark.parametrize(
    ("setting", "value", "now", "why"),
    [
        ("inference_address", "http://0.0.0.0:8085", "http://127.0.0.1:8085", ADAPTER_ONLY),
        ("inference_address", "https://0.0.0.0:8443", "http://127.0.0.1:8443", ADAPTER_ONLY),
        ("management_address", "http://0.0.0.0:8081", "http://127.0.0.1:50081", f"{ADAPTER_ONLY}; port 8081 is taken"),
        ("grpc_inference_port", "8081", "50081", "port 8081 is taken"),
        ("model_store", "model-store", "/mnt/models/model-store", "relative to the model directory"),
        ("model_store", "models", "/mnt/models/model-store", "there is no /mnt/models/models"),
        ("disable_token_authorization", "false", "true", TOKENS),
        ("metrics_config", "config/m.yaml", "/mnt/models/config/m.yaml", "relative to the model directory"),
        ("load_models", "a = a.mar, b.mar ,c.mar", "a=a.mar,b.mar,c.mar", BLANKS),
    ],
)  # fmt: skip
def test_a_change_says_what_was_what_is_and_why(setting: str, value: str, now: str, why: str) -> None:
    draft = effective({setting: value}, around())

    assert draft.properties[setting] == now
    assert f"{setting}: {value} → {now} ({why})" in map(str, draft.changes)


@pytest.mark.parametrize(
    "name",
    [name for name, setting in PROPERTIES.items() if setting.outcome(Runtime.TORCHSERVE, "42").effect is Effect.SAME],
)
def test_what_torchserve_does_itself_reaches_it_to_the_letter(name: str) -> None:
    draft = effective({name: "42"}, around())

    assert draft.properties[name] == "42" or name in ("enable_envvars_config", "disable_token_authorization")


@pytest.mark.parametrize("name", ["models", *sorted(LEAST.keys() & PROPERTIES)])
def test_what_is_empty_and_has_a_default_does_not_reach_torchserve(name: str) -> None:
    assert effective({name: ""}, around()).properties == MINIMUM


@pytest.mark.parametrize("written", ["model-store", ""])
def test_the_other_name_of_the_store_is_found(written: str) -> None:
    draft = effective({"model_store": written}, around(store="mar-store"))

    assert draft.properties["model_store"] == "/mnt/models/mar-store"


def test_variables_override_the_file_only_when_the_file_says_so() -> None:
    environment = {"TS_JOB_QUEUE_SIZE": "700", "TS_OPEN_INFERENCE_PROTOCOL": "oip", "TS_CONFIG_FILE": "/other"}

    with_them = effective({"enable_envvars_config": "true", "job_queue_size": "200"}, around(environment)).properties
    without = effective({"job_queue_size": "200"}, around(environment)).properties

    assert with_them == {
        **MINIMUM,
        "job_queue_size": "700",
        "ts_open_inference_protocol": "oip",
        "enable_envvars_config": "false",  # else TorchServe would read them again, over our changes
    }
    assert without == {**MINIMUM, "job_queue_size": "200"}


def test_a_variable_cannot_bring_an_open_address_back() -> None:
    environment = {"TS_MANAGEMENT_ADDRESS": "http://0.0.0.0:9000"}

    draft = effective({"enable_envvars_config": "true"}, around(environment))

    assert draft.properties["management_address"] == "http://127.0.0.1:9000"


def test_placeholders_are_filled_in_from_the_environment() -> None:
    assert effective({"model_store": "$$WHERE$$"}, around({"WHERE": "model-store"})).properties == MINIMUM


def test_a_placeholder_without_its_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"uses \$\$WHERE\$\$, but the environment has no WHERE"):
        effective({"model_store": "$$WHERE$$"}, around())


def test_models_without_load_models_loads_the_archives_they_name() -> None:
    models = '{"a": {"1.0": {"marName": "x.mar"}}, "b": {"1.0": {"marName": "y.mar"}}}'

    assert effective({"models": models}, around()).properties["load_models"] == "a=x.mar,b=y.mar"


@pytest.mark.parametrize("load_models", [{}, {"load_models": "all"}])
def test_models_may_be_nothing_but_parameters(load_models: dict[str, str]) -> None:
    models = {"models": '{"a": {"1.0": {"minWorkers": 2}}}'}

    assert effective({**models, **load_models}, around()).properties == {**MINIMUM, **models}


@pytest.mark.parametrize(
    ("setting", "wrapped"),
    [("models", lambda table: table), ("model_snapshot", lambda table: snapshot(**table))],
)
def test_a_model_gets_at_least_one_worker(setting: str, wrapped: Callable[[Any], Any]) -> None:
    idle = {"a": {"1.0": {**WHOLE, "minWorkers": 0, "maxWorkers": 0}}}

    draft = effective({setting: json.dumps(wrapped(idle))}, around())

    assert json.loads(draft.properties[setting]) == wrapped({"a": {"1.0": WHOLE}})


def test_a_number_of_workers_may_be_a_text() -> None:
    table = {"m": {"1.0": {"minWorkers": "0", "maxWorkers": "2"}}}

    given = json.loads(effective({"models": json.dumps(table)}, around()).properties["models"])

    assert given == {"m": {"1.0": {"minWorkers": 1, "maxWorkers": 2}}}


def test_a_whole_snapshot_stays_to_the_letter() -> None:
    text = json.dumps(snapshot(a={"1.0": WHOLE}), indent=2)

    assert effective({"model_snapshot": text}, around()).properties["model_snapshot"] == text


def test_what_a_snapshot_lacks_is_filled_in_and_said() -> None:
    """TorchServe would load nothing without the first, and end with a null pointer without the others."""
    bare = {"models": {"a": {"2.0": {"marName": "x.mar"}, "10.0": {"marName": "y.mar", "minWorkers": 2}}}}

    draft = effective({"model_snapshot": json.dumps(bare)}, around())

    filled_in = {"minWorkers": 1, "maxWorkers": 1, "batchSize": 1, "maxBatchDelay": 100}
    assert json.loads(draft.properties["model_snapshot"]) == {
        "modelCount": 1,
        "models": {
            "a": {
                "2.0": {"marName": "x.mar", **filled_in, "defaultVersion": False},
                "10.0": {"marName": "y.mar", **filled_in, "minWorkers": 2, "maxWorkers": 2, "defaultVersion": True},
            }
        },
    }
    assert [change.why for change in draft.changes if change.setting == "model_snapshot"] == [
        "modelCount 1: without it TorchServe loads no model",
        "minWorkers, batchSize, maxBatchDelay, maxWorkers filled in: TorchServe does not start without them",
        "version 10.0 of model a is its default: TorchServe does not start without one",
    ]


def test_a_default_version_that_is_named_stays_the_default() -> None:
    first, second = {**WHOLE, "defaultVersion": True}, {**WHOLE}
    del second["defaultVersion"]

    draft = effective({"model_snapshot": json.dumps(snapshot(a={"1.0": first, "2.0": second}))}, around())

    completed = json.loads(draft.properties["model_snapshot"])["models"]["a"]
    assert {version: parameters["defaultVersion"] for version, parameters in completed.items()} == {
        "1.0": True,
        "2.0": False,
    }


@pytest.mark.parametrize(("memory", "heap"), [(2**29, 128), (2**32, 512), (2**36, 1024)])
def test_the_heap_follows_the_containers_memory(memory: int, heap: int) -> None:
    assert effective({}, around(memory_bytes=memory)).properties["vmargs"] == f"-Xmx{heap}m {JVM}"


def test_a_frame_of_requests_may_be_larger_than_a_request() -> None:
    small = effective({"max_response_size": "100"}, around(max_request_size=9)).properties
    large = effective({"max_request_size": str(2**31 - 1)}, around()).properties

    assert (small["max_request_size"], small["max_response_size"]) == (str(36 + FRAME_BYTES), "3200")
    assert large["max_request_size"] == str(2**31 - 1)  # all that Java can hold


def test_torchserves_queue_is_never_the_one_that_is_full() -> None:
    assert effective({"job_queue_size": "1"}, around()).properties["job_queue_size"] == "100"


def test_what_the_user_wrote_is_kept_for_the_adapter_itself() -> None:
    properties = {"enable_envvars_config": "true", "job_queue_size": "1", "max_request_size": "$$SIZE$$"}

    written = as_written(properties, around({"SIZE": "9", "TS_NUMBER_OF_GPU": "3"}))

    assert {name: written[name] for name in ("job_queue_size", "max_request_size", "number_of_gpu")} == {
        "job_queue_size": "1",
        "max_request_size": "9",
        "number_of_gpu": "3",
    }


@pytest.mark.parametrize(("written", "envelope"), [("body", "body"), ("none", "none"), ("", "none"), (None, "kserve")])
def test_an_envelope_that_is_left_empty_is_none(written: str | None, envelope: str) -> None:
    properties = {} if written is None else {"service_envelope": written}

    assert effective(properties, around()).properties["service_envelope"] == envelope


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"inference_address": "http://0.0.0.0:eight"}, "inference_address in config.properties has no valid port"),
        ({"grpc_inference_port": "x"}, "grpc_inference_port in config.properties has no valid port"),
        ({"models": "{"}, "config/config.properties: models is not valid JSON"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        effective(properties, around())


def test_a_missing_store_names_where_it_was_looked_for() -> None:
    with pytest.raises(ConfigurationError, match=r"neither /mnt/models/here nor /mnt/models/model-store nor"):
        effective({"model_store": "here"}, around(store="elsewhere"))


def test_properties_are_read_as_java_reads_them() -> None:
    content = b"a=1\\\n   2\n# b=3\nc : \\u00e9\\=\nd\n a=4\n"

    assert parse(content, "file") == {"a": "4", "c": "é=", "d": ""}


def test_blanks_after_a_value_are_none_of_it() -> None:
    assert parse(b"install_py_dep_per_model = true \t\njob_queue_size=7 \n", "file") == {
        "install_py_dep_per_model": "true",
        "job_queue_size": "7",
    }


def test_what_is_written_is_read_back() -> None:
    properties = {"models": '{"a b": "c:d=\\\\"}', "empty": "", "umlaut": "ü → x"}

    assert parse(dump(properties), "file") == properties
