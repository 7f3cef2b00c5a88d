"""The operator's flags, and what they get from the environment."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from isvc.commands import isvc, main


def parsed(env: dict[str, str], *argv: str) -> dict[str, object]:
    with mock.patch.dict(os.environ, env, clear=True), isvc.make_context("isvc", ["operator", *argv]) as above:
        _, command, rest = isvc.resolve_command(above, ["operator", *argv])
        assert command
        with command.make_context("operator", rest, parent=above) as context:
            return context.params


def test_every_flag_has_a_variable() -> None:
    env = {
        "KUBECONFIG": "/a/kubeconfig",
        "WATCH_NAMESPACES": "blue,green",
        "CONFIG_DIR": "/etc/isvc",
        "HEALTH_PORT": "8081",
        "PARALLEL": "3",
        "LOG_LEVEL": "debug",
        "POD_NAMESPACE": "operators",
        "LEADER_ELECT": "True",
        "LOG_FORMAT": "json",
        "TRACES": "otlp",
    }
    assert parsed(env) == {
        "kubeconfig": "/a/kubeconfig",
        "namespace": ("blue", "green"),
        "config_dir": Path("/etc/isvc"),
        "health_port": 8081,
        "parallel": 3,
        "log_level": "DEBUG",
        "home": "operators",
        "leader_elect": True,
        "log_format": "json",
        "traces": "otlp",
    }


def test_a_flag_wins_over_its_variable() -> None:
    assert parsed({"PARALLEL": "3"}, "--parallel", "5")["parallel"] == 5
    assert parsed({"LEADER_ELECT": "false"}, "--leader-elect")["leader_elect"] is True


@pytest.mark.parametrize(
    "env",
    [
        {"LOG_LEVEL": "chatty"},
        {"HEALTH_PORT": "http"},
        {"LOG_FORMAT": "xml"},
        {"TRACES": "all"},
        {"LEADER_ELECT": "perhaps"},
    ],
    ids=lambda env: next(iter(env)),
)
def test_a_variable_that_makes_no_sense_is_refused(env: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.dict(os.environ, env, clear=True):
        assert main(["operator"]) == 2
    assert next(iter(env.values())) in capsys.readouterr().err
