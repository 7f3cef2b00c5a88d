"""The table of TorchServe's settings holds every name that TorchServe itself knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import java_class
from tests.support.java_class import JavaClass
from torchserve_compat.store.known_settings import ARCHIVE, PARAMETERS, PROPERTIES, TORCHRUN, variable

_SPEC = find_spec("ts")
assert _SPEC
assert _SPEC.origin
WHEEL = Path(_SPEC.origin).parent
JAR = str(WHEEL / "frontend/model-server.jar")
# Constants of ConfigManager that are not settings: names of loggers, values, and what it sets itself.
NO_SETTINGS = {
    "MODEL_METRICS_LOGGER", "MODEL_LOGGER", "MODEL_SERVER_METRICS_LOGGER", "MODEL_SERVER_TELEMETRY_LOGGER",
    "METRIC_FORMAT_PROMETHEUS", "PYTHON_EXECUTABLE", "DEFAULT_TS_ALLOWED_URLS", "VERSION",
    "DEFAULT_REQUEST_SEQUENCE_ID", "DEFAULT_REQUEST_SEQUENCE_START", "DEFAULT_REQUEST_SEQUENCE_END",
}  # fmt: skip


@pytest.fixture(scope="module")
def manager() -> JavaClass:
    return java_class.read(JAR, "org/pytorch/serve/util/ConfigManager")


def _names(strings: Iterable[str]) -> set[str]:
    """Of text literals, those that can be a key: not the texts of messages, nor single words of Java's."""
    return {text for text in strings if re.fullmatch(r"[a-z]+([A-Z][A-Za-z]*|-[a-z]+)+|torchrun", text)}


def test_every_setting_of_torchserves_configuration_is_in_the_table(manager: JavaClass) -> None:
    known = {value for name, value in manager.constants.items() if name not in NO_SETTINGS}
    by_its_launcher = set(re.findall(r'props.get\("(\w+)"', (WHEEL / "model_server.py").read_text()))

    assert known | by_its_launcher == PROPERTIES.keys()


def test_every_variable_of_torchserves_environment_sets_its_setting(manager: JavaClass) -> None:
    variables = {name: value for name, value in manager.constants.items() if name.startswith("TS_")}

    assert {variable(setting): setting for setting in variables.values()} == variables


def test_every_key_of_an_archives_yaml_is_in_the_table() -> None:
    config = java_class.read(JAR, "org/pytorch/serve/archive/model/ModelConfig")

    assert _names(config.strings) == ARCHIVE.keys()


def test_every_key_below_torchrun_is_in_the_table() -> None:
    torchrun = java_class.read(JAR, "org/pytorch/serve/archive/model/ModelConfig$TorchRun")

    assert {text for text in torchrun.strings if re.fullmatch(r"[A-Za-z]+[-_][A-Za-z_-]+|nnodes", text)} == (
        TORCHRUN.keys()
    )


def test_every_parameter_of_a_version_is_in_the_table() -> None:
    model = java_class.read(JAR, "org/pytorch/serve/wlm/Model")

    assert {value for name, value in model.constants.items() if name != "DEFAULT_DATA_QUEUE"} == PARAMETERS.keys()
