"""Rows about servers that end: most need a server, and those of the kubelet a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from data_plane.model_server.errors import ConfigurationError, ModelFailed
from data_plane.payload_logger.settings import BadSettings, settings_of
from tests.contract.troubles.rows import Elsewhere, Observed, Provoked, Tried
from tests.support.model_folder import STORY_CONFIG, write_volume
from tests.unit.mar_runtime import test_directory as directory
from tests.unit.torchserve_adapter.watching import DIED, LOADING, READY, Step, watch
from torchserve_compat.store import notices
from torchserve_compat.store.known_settings import Runtime

PROBE = "tests/e2e/cluster/test_services_that_fail.py::test_a_service_is_ready_once_its_fix_is_followed"
ADAPTER, MAR = "tests/integration/torchserve/test_ends.py", "tests/integration/mar_runtime/test_ends.py"
PATIENCE = 1000  # seconds without a worker, after which TorchServe is taken to have given up


def payload_logger(text: str) -> Callable[[Path], str]:
    """Read the variable as a server does when it starts."""

    def run(_: Path) -> str:
        try:
            settings_of({"PAYLOAD_LOGGER": text})
        except BadSettings as error:
            return f"3 {error}"
        return ""

    return run


def configured(line: str) -> Callable[[Path], str]:
    """Read a folder's configuration as a server does when it starts."""

    def run(place: Path) -> str:
        write_volume(place, f"{STORY_CONFIG}\n{line}")
        try:
            directory.look(place)
        except ConfigurationError as error:
            return f"3 {error}"
        return ""

    return run


def with_yaml(**settings: object) -> Callable[[Path], str]:
    """Read the YAML of an archive."""

    def run(_: Path) -> str:
        try:
            notices.of_archive(Runtime.MAR, "a.mar", settings)
        except ConfigurationError as error:
            return f"3 {error}"
        return ""

    return run


def watched(*script: Step) -> Callable[[Path], str]:
    """Watch a model of TorchServe, whose log and API say this."""

    def run(place: Path) -> str:
        try:
            asyncio.run(watch(place, *script))
        except ModelFailed as error:
            return f"4 {error}"
        return ""

    return run


HERE: tuple[Tried, ...] = (
    Provoked(("3", "an invalid setting"), "max_request_size is 'large'; write a whole number, 1 or more",
             configured("max_request_size=large"), configured("max_request_size=7000000")),
    Provoked(("3", "The variable PAYLOAD_LOGGER"), "The variable PAYLOAD_LOGGER cannot be used",
             payload_logger("http://sink"), payload_logger('{"url": "http://sink"}')),
    Elsewhere(("4", "Model … could not be loaded"),
              "tests/contract/test_loading.py::test_what_cannot_be_loaded_is_told_before_it_is_and_its_fix_mends_it"),
    Elsewhere(("4", "Model … was not loaded within"),
              f"{MAR}::test_a_model_that_takes_too_long_to_load_ends_the_server"),
    Provoked(("4", "The worker of model … died without"), "died without a Python exception; if it was killed",
             watched(None, DIED, LOADING), watched(None, LOADING, READY)),
    Elsewhere(("4", "The worker of model … died while it loaded"),
              "tests/unit/mar_runtime/test_restarts.py::"
              "test_a_worker_that_dies_while_it_loads_its_handler_ends_the_start_with_how"),
    Provoked(("3", "… asks for asyncCommunication"), "asks for asyncCommunication: True, which is not supported",
             with_yaml(asyncCommunication=True), with_yaml()),
    Elsewhere(("4", "… cannot be loaded by onnxruntime"),
              "tests/models/test_models.py::"
              "test_a_model_whose_locale_the_machine_lacks_is_served_once_it_is_there"),
    Elsewhere(("4", "… died 5 times in a row"), f"{MAR}::test_a_loop_of_crashes_ends_the_server_with_the_last_of_them"),
    Provoked(("4", "… has had no worker for"), "TorchServe no longer restarts it; the last time",
             watched(READY, DIED, LOADING, PATIENCE, LOADING, 1, LOADING),
             watched(READY, DIED, LOADING, 1, READY, PATIENCE, READY)),
    Observed(("137, 143, 0", "it was killed after its liveness probe"), (
        "a server that a liveness probe has ended",
        "a server that a liveness probe has ended, and that exits by itself then"), PROBE),
    Observed(("137, 143, 0", "it was killed after its startup probe"), ("a server that a startup probe has ended",),
             PROBE),
    Observed(("137, 143", "SIGKILL or SIGTERM ended it"), ("a server that a signal has ended",),
             "tests/e2e/cluster/test_outages.py::test_a_server_that_breaks_is_named_until_its_pod_is_replaced"),
    Observed(("137", "the container used more memory"), ("a server without enough memory",),
             PROBE),
    Elsewhere(("5", "TorchServe died"), f"{ADAPTER}::test_a_killed_torchserve_ends_the_pod"),
)  # fmt: skip
