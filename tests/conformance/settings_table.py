"""The table of docs/torchserve-settings.md: what each runtime does with every setting of TorchServe, with its tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.support.runtimes import ROOT
from torchserve_compat.store.known_settings import (
    ARCHIVE,
    PARAMETERS,
    PROPERTIES,
    TORCHRUN,
    Effect,
    Outcome,
    Runtime,
    Setting,
)

PAGE = ROOT / "docs/torchserve-settings.md"
_HEAD = """\
# TorchServe's settings

Every setting that TorchServe 0.12 knows, and what our two runtimes do with it:

- *as TorchServe*: it has the same effect.
- *honoured otherwise*: it has its effect in the way that is said.
- *no effect*: the log says so in one line when the server starts, with what to do. So it does with names that are no
  settings of TorchServe.
- *exit code 3*: to ignore it would be dangerous or give wrong answers. The server ends; the reason is in the log, in
  the termination message, and so in the service's status.

`kserve-torchserve` also logs each setting that TorchServe gets otherwise than you wrote it.

This page is written by `python -m tests.conformance` from the table that the servers themselves read. Tests watch that
it is up to date, that it has every name in TorchServe's jar, and that what it says is so.
"""
_SECTIONS: tuple[tuple[str, str, Mapping[str, Setting]], ...] = (
    (
        "config.properties",
        "In the environment, too, with `enable_envvars_config=true`: `TS_JOB_QUEUE_SIZE` for `job_queue_size`.",
        PROPERTIES,
    ),
    ("A version in `models` or `model_snapshot`", "", PARAMETERS),
    (
        "An archive's YAML",
        "The file that `torch-model-archiver --config-file` takes. Its other keys are the handler's, in "
        "`context.model_yaml_config`: those of TorchServe's own handlers (`handler`, `pt2`) as well.",
        ARCHIVE,
    ),
    ("Below `torchrun` in an archive's YAML", "", TORCHRUN),
)
_NOTICES = "tests/unit/torchserve_compat/store/test_notices.py"
_RULES = "tests/unit/torchserve_adapter/test_rules.py"
_BATCHING = "tests/unit/torchserve_adapter/test_batching.py"
_PLAN = "tests/unit/mar_runtime/test_plan.py"
_DIRECTORY = "tests/unit/mar_runtime/test_directory.py"
_SETTINGS = "tests/integration/mar_runtime/test_settings.py"
_SERVING = "tests/integration/mar_runtime/test_serving.py"
_REFUSED = (
    f"{_NOTICES}::test_a_setting_that_must_not_be_ignored_is_refused",
    f"{_NOTICES}::test_a_parameter_of_a_version_that_must_not_be_ignored_is_refused",
    f"{_NOTICES}::test_a_key_of_an_archive_that_must_not_be_ignored_is_refused",
    f"{_SETTINGS}::test_an_archive_that_asks_for_several_processes_ends_the_server",
)
_WITHOUT_EFFECT = (
    f"{_NOTICES}::test_a_setting_without_effect_is_named_with_what_to_do",
    f"{_NOTICES}::test_a_parameter_of_a_version_without_effect_is_named_with_what_to_do",
    f"{_NOTICES}::test_a_key_of_an_archive_without_effect_is_named_with_what_to_do",
)
# What the adapter leaves alone reaches TorchServe.
_PASSED_ON = (
    f"{_RULES}::test_what_torchserve_does_itself_reaches_it_to_the_letter",
    f"{_BATCHING}::test_what_does_not_batch_stays_to_the_letter",
    f"{_BATCHING}::test_what_does_not_batch_stays_to_the_letter",
    f"{_BATCHING}::test_what_does_not_batch_stays_to_the_letter",
)
_MINIMUM = f"{_RULES}::test_an_empty_configuration_gets_the_minimum_and_each_setting_is_said"
_FOLLOWED = f"{_PLAN}::test_all_that_can_be_said_is_followed"
_CHANGED = f"{_RULES}::test_a_change_says_what_was_what_is_and_why"
_CORS = "tests/unit/endpoints/test_cors.py::test_every_answer_says_who_may_read_it"
_SEQUENCES = "tests/unit/torchserve_compat/store/test_sequence_settings.py"
_OF_SEQUENCES = (
    f"{_SEQUENCES}::test_all_that_can_be_said_of_sequences_is_followed",
    "tests/conformance/test_sequences.py::test_more_than_torchserve_takes_is_refused_with_its_status",
)
_HEADERS_OF_SEQUENCES = (f"{_SEQUENCES}::test_the_headers_may_have_other_names",)
_GPUS = "tests/unit/mar_runtime/test_devices.py::test_an_archive_has_the_gpus_that_it_asks_for"
# By setting: the tests of what isvc-mar honours, and of what the adapter gives TorchServe otherwise.
HONOURED: Mapping[str, tuple[str, ...]] = {
    "inference_address": (_MINIMUM,),
    "management_address": (_MINIMUM, f"{_RULES}::test_a_variable_cannot_bring_an_open_address_back"),
    "metrics_address": (_MINIMUM,),
    "grpc_inference_address": (_MINIMUM,),
    "grpc_management_address": (_MINIMUM,),
    "grpc_inference_port": (_CHANGED,),
    "grpc_management_port": (_CHANGED,),
    "disable_token_authorization": (_MINIMUM,),
    "load_models": (
        f"{_RULES}::test_models_without_load_models_loads_the_archives_they_name",
        f"{_DIRECTORY}::test_the_table_of_models_may_be_nothing_but_parameters",
    ),
    "models": (
        f"{_RULES}::test_a_model_gets_at_least_one_worker",
        f"{_DIRECTORY}::test_the_table_of_models_says_how_and_may_say_which",
    ),
    "model_snapshot": (
        f"{_RULES}::test_what_a_snapshot_lacks_is_filled_in_and_said",
        f"{_DIRECTORY}::test_a_snapshot_says_which_versions_are_served_and_how",
    ),
    "model_store": (
        f"{_RULES}::test_the_other_name_of_the_store_is_found",
        f"{_DIRECTORY}::test_archives_are_found_in_another_store_and_beside_nothing_at_all",
    ),
    "service_envelope": (
        f"{_RULES}::test_an_envelope_that_is_left_empty_is_none",
        f"{_PLAN}::test_the_envelope_is_the_configurations",
    ),
    "max_request_size": (
        f"{_RULES}::test_a_frame_of_requests_may_be_larger_than_a_request",
        f"{_DIRECTORY}::test_the_largest_body_is_the_flags_else_the_configurations_else_torchserves",
    ),
    "job_queue_size": (f"{_RULES}::test_torchserves_queue_is_never_the_one_that_is_full", _FOLLOWED),
    "default_workers_per_model": (
        f"{_PLAN}::test_a_model_has_a_worker",
        f"{_PLAN}::test_a_model_that_is_told_no_number_may_have_a_worker_for_each_device_up_to_four",
    ),
    "default_response_timeout": (f"{_PLAN}::test_the_servers_own_times_are_for_models_that_say_none",),
    "default_startup_timeout": (f"{_PLAN}::test_the_servers_own_times_are_for_models_that_say_none",),
    "number_of_gpu": ("tests/unit/mar_runtime/test_resources.py::test_gpus_are_those_there_or_fewer_if_so_configured",),
    "blacklist_env_vars": (
        "tests/integration/mar_runtime/test_surroundings.py"
        "::test_a_handler_does_not_get_what_the_configuration_withholds",
    ),
    "install_py_dep_per_model": (
        f"{_PLAN}::test_requirements_are_installed_only_where_that_is_turned_on",
        f"{_SERVING}::test_requirements_are_the_models_own",
    ),
    "limit_max_image_pixels": (f"{_SERVING}::test_a_handler_has_its_settings_and_its_surroundings",),
    "decode_input_request": ("tests/conformance/test_decoding.py::test_json_reaches_the_handler_as_bytes",),
    "cors_allowed_origin": (_CORS,),
    "cors_allowed_methods": (_CORS,),
    "cors_allowed_headers": (_CORS,),
    "enable_envvars_config": (f"{_DIRECTORY}::test_placeholders_and_ts_variables_are_filled_in",),
    "metrics_config": (f"{_SETTINGS}::test_a_handler_has_the_users_threads_and_metrics",),
    "metrics_mode": (_MINIMUM,),
    "enable_metrics_api": (_MINIMUM,),
    "disable_system_metrics": (_MINIMUM,),
    "max_response_size": (_MINIMUM,),
    "enable_model_api": (
        "tests/integration/torchserve/test_registered.py::test_nothing_can_be_registered_unless_it_is_turned_on",
    ),
    "vmargs": (f"{_RULES}::test_the_heap_follows_the_containers_memory",),
    "minWorkers": (_FOLLOWED,),
    "maxWorkers": (_FOLLOWED,),
    "responseTimeout": (_FOLLOWED,),
    "startupTimeout": (_FOLLOWED,),
    "batchSize": (f"{_BATCHING}::test_torchserve_gets_batches_of_one", _FOLLOWED),
    "continuousBatching": (
        "tests/conformance/test_streaming.py::test_a_request_joins_those_that_run_and_leaves_before_they_end",
    ),
    "maxBatchDelay": (
        "tests/integration/torchserve/test_configurations.py::test_an_archive_that_batches_by_itself_makes_nobody_wait",
    ),
    "marName": (f"{_DIRECTORY}::test_a_snapshot_says_which_versions_are_served_and_how",),
    "defaultVersion": (f"{_DIRECTORY}::test_a_snapshot_says_which_versions_are_served_and_how",),
    "deviceType": (_GPUS,),
    "deviceIds": (_GPUS, "tests/unit/mar_runtime/test_devices.py::test_gpus_that_are_not_there_are_refused"),
    "jobQueueSize": (_FOLLOWED,),
    "clientTimeoutInMills": (
        f"{_PLAN}::test_an_archive_says_how_long_its_clients_wait",
        f"{_BATCHING}::test_an_archive_says_how_long_its_clients_wait",
    ),
    "sequenceBatching": ("tests/conformance/test_sequences.py::test_requests_of_a_sequence_are_added_up_in_order",),
    "sequenceMaxIdleMSec": (
        *_OF_SEQUENCES,
        "tests/unit/torchserve_adapter/test_client.py"
        "::test_the_limits_of_sequences_are_torchserves_with_a_shorter_time",
    ),
    "sequenceTimeoutMSec": _OF_SEQUENCES[:1],
    "maxSequenceJobQueueSize": _OF_SEQUENCES,
    "maxNumSequence": (
        *_OF_SEQUENCES,
        f"{_SEQUENCES}::test_without_a_number_there_is_a_place_for_each_request_of_a_batch_of_each_worker",
    ),
    "ts_header_key_sequence_id": _HEADERS_OF_SEQUENCES,
    "ts_header_key_sequence_start": _HEADERS_OF_SEQUENCES,
    "ts_header_key_sequence_end": (
        *_HEADERS_OF_SEQUENCES,
        "tests/unit/torchserve_compat/test_stateful.py::test_a_sequence_ends_with_the_request_that_says_so",
    ),
}


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(place, *section) for place, section in enumerate(_SECTIONS))])


def paths_of(place: int, setting: Setting) -> tuple[str, ...]:
    """Every test of what the page says of a setting; `place` is that of its section."""
    effects = {outcome.effect for outcome in (*setting.torchserve, *setting.mar)}
    return (
        *HONOURED.get(setting.name, ()),
        *((_WITHOUT_EFFECT[place],) if Effect.NONE in effects else ()),
        *((_REFUSED[place],) if Effect.REFUSED in effects else ()),
        *((_PASSED_ON[place],) if _is_same(setting.torchserve) else ()),
    )


def every() -> Iterator[tuple[int, Setting]]:
    """Each setting with the place of its section."""
    for place, (_, _, table) in enumerate(_SECTIONS):
        for setting in table.values():
            yield place, setting


def is_honoured_by_mar(setting: Setting) -> bool:
    """Whether any value has an effect on it."""
    return _is_same(setting.mar) or any(outcome.effect is Effect.OTHERWISE for outcome in setting.mar)


def _is_same(outcomes: tuple[Outcome, ...]) -> bool:
    return all(outcome.effect is Effect.SAME for outcome in outcomes)


def _section(place: int, title: str, words: str, table: Mapping[str, Setting]) -> str:
    columns = ("setting", Runtime.TORCHSERVE.value, Runtime.MAR.value, "test")
    rows = (
        (f"`{setting.name}`", _told(setting.torchserve), _told(setting.mar), _linked(paths_of(place, setting)))
        for setting in table.values()
    )
    lines = [_line(columns), _line("---" for _ in columns), *map(_line, rows)]
    return "\n".join([f"## {title}", "", *([words, ""] if words else []), *lines, ""])


def _told(outcomes: tuple[Outcome, ...]) -> str:
    return "; ".join(map(_outcome, outcomes))


def _outcome(outcome: Outcome) -> str:
    values = f"{outcome.values.words}: " if outcome.values.words else ""
    return f"{values}*{outcome.effect.value}*" + (f": {outcome.why.removeprefix('which ')}" if outcome.why else "")


def _linked(paths: Iterable[str]) -> str:
    return "<br>".join(f"`{path}`" for path in dict.fromkeys(paths))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
