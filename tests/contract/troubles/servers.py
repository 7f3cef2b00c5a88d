"""Rows about servers that end: most need a server, and those of the kubelet a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from data_plane.payload_logger.settings import BadSettings, settings_of
from tests.contract.troubles.rows import Elsewhere, Provoked, Tried

PODS = "tests/unit/operator_core/observe/test_pods.py::test_a_pod_is_stopped_by"
PROBE = "tests/e2e/cluster/test_services_that_fail.py::test_a_probe_that_has_ended_the_server_is_named"
ADAPTER, MAR = "tests/integration/torchserve/test_ends.py", "tests/integration/mar_runtime/test_ends.py"
WATCH = "tests/unit/torchserve_adapter/test_watch.py"


def payload_logger(text: str) -> Callable[[Path], str]:
    """Read the variable as a server does when it starts."""

    def run(_: Path) -> str:
        try:
            settings_of({"PAYLOAD_LOGGER": text})
        except BadSettings as error:
            return f"3 {error}"
        return ""

    return run


HERE: tuple[Tried, ...] = (
    Elsewhere(("3", "an invalid setting"), (
        "tests/unit/torchserve_adapter/test_main.py::test_a_wrong_configuration_is_named",
        "tests/unit/mar_runtime/test_directory.py::test_a_wrong_configuration_is_named")),
    Provoked(("3", "The variable PAYLOAD_LOGGER"), "The variable PAYLOAD_LOGGER cannot be used",
             payload_logger("http://sink"), payload_logger('{"url": "http://sink"}')),
    Elsewhere(("4", "Model … could not be loaded"), (
        "tests/contract/test_loading.py::test_what_cannot_be_loaded_is_told_before_it_is_and_its_fix_mends_it",)),
    Elsewhere(("4", "Model … was not loaded within"), (
        f"{ADAPTER}::test_a_model_that_takes_too_long_to_load_ends_the_pod",
        f"{MAR}::test_a_model_that_takes_too_long_to_load_ends_the_server")),
    Elsewhere(("4", "The worker of model … died without"), (f"{WATCH}::test_a_first_load_that_fails_ends_it",)),
    Elsewhere(("4", "The worker of model … died while it loaded"), (
        "tests/unit/mar_runtime/test_restarts.py::"
        "test_a_worker_that_dies_while_it_loads_its_handler_ends_the_start_with_how",)),
    Elsewhere(("3", "… asks for asyncCommunication"), (
        "tests/conformance/test_bad_archives.py::test_an_archive_that_cannot_be_read_or_unpacked_ends_the_server",)),
    Elsewhere(("4", "… cannot be loaded by onnxruntime"), (
        "tests/integration/mar_engines/test_onnx.py::test_a_locale_that_the_machine_does_not_have_is_named_with_the_fix",
        "tests/models/test_models.py::test_a_model_answers_as_it_does_beside_the_server")),
    Elsewhere(("4", "… died 5 times in a row"), (
        f"{ADAPTER}::test_a_loop_of_crashes_ends_the_pod_with_the_last_of_them",
        f"{MAR}::test_a_loop_of_crashes_ends_the_server_with_the_last_of_them",
        f"{WATCH}::test_a_worker_that_was_too_late_is_not_called_short_of_memory",
        f"{WATCH}::test_deaths_with_an_answer_between_them_are_no_loop")),
    Elsewhere(("4", "… has had no worker for"), (f"{WATCH}::test_a_worker_that_torchserve_has_given_up_on_ends_it",)),
    Elsewhere(("137, 143, 0", "it was killed after its liveness probe"), (PODS, PROBE)),
    Elsewhere(("137, 143, 0", "it was killed after its startup probe"), (PODS, PROBE)),
    Elsewhere(("137, 143", "SIGKILL or SIGTERM ended it"), (PODS,)),
    Elsewhere(("137", "the container used more memory"), (PODS,)),
    Elsewhere(("5", "TorchServe died"), (f"{ADAPTER}::test_a_killed_torchserve_ends_the_pod",)),
)  # fmt: skip
