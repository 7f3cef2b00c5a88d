"""A container's command, variables and probe as those of a process on this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from isvc.run.container import (
    LocalBindings,
    Machine,
    Probe,
    Process,
    plan_process,
)
from isvc.run.errors import UnusableInput

PLACE = LocalBindings(
    paths={"/mnt/models": Path("/run/models"), "/mnt": Path("/run/mnt")},
    ports={8080: 40001},
    scratch=Path("/run/tmp"),
    termination_log=Path("/run/termination/server"),
    machine=Machine(
        folder=Path("/run"),
        claims={},
        environment={"TOKEN": "secret"},
        python="/venv/bin/python",
        free_port=lambda: 40002,
    ),
)
ALWAYS = {
    "PYTHONUNBUFFERED": "1",
    "HTTP_HOST": "127.0.0.1",
    "TMPDIR": "/run/tmp",
    "TERMINATION_LOG": "/run/termination/server",
}


def plan(**container: Any) -> Process:
    return plan_process("svc/server", {"name": "server", "command": ["serve"], **container}, PLACE)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, None),
        ({"HOME": "/home/me"}, "/home/me/.cache/isvc/packages"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/caches"}, "/caches/isvc/packages"),
        ({"HOME": "/home/me", "PACKAGE_CACHE": "/mine"}, "/mine"),
    ],
)
def test_packages_of_archives_are_kept_for_the_next_run(environment: dict[str, str], folder: str | None) -> None:
    machine = dataclasses.replace(PLACE.machine, environment=environment)

    process = plan_process(
        "svc/server", {"name": "server", "command": ["serve"]}, dataclasses.replace(PLACE, machine=machine)
    )

    assert process.env.get("PACKAGE_CACHE") == folder


def test_a_whole_container_becomes_a_process() -> None:
    process = plan(
        command=["python", "-m", "server"],
        args=["--model-dir=/mnt/models", "--http-port=8080"],
        env=[{"name": "MODELS", "value": "/mnt/models"}, {"name": "NONE"}],
        workingDir="/mnt/models/code",
        ports=[{"name": "http", "containerPort": 8080}],
        readinessProbe={"httpGet": {"path": "/ready", "port": "http"}},
        lifecycle={"preStop": {"sleep": {"seconds": 5}}},
    )

    assert process == Process(
        name="svc/server",
        command=("/venv/bin/python", "-m", "server", "--model-dir=/run/models", "--http-port=40001"),
        env={**ALWAYS, "MODELS": "/run/models", "NONE": ""},
        working_dir="/run/models/code",
        termination_log=Path("/run/termination/server"),
        container="server",
        readiness=Probe({"httpGet": {"path": "/ready", "port": 40001}}),
    )


def test_the_path_of_this_machines_python_is_not_replaced() -> None:
    """For a checkout below a path that the container mounts, such as /tmp."""
    machine = dataclasses.replace(PLACE.machine, python="/mnt/models/.venv/bin/python")
    place = dataclasses.replace(PLACE, machine=machine)
    process = plan_process("svc/server", {"name": "server", "command": ["python", "/mnt/models/serve.py"]}, place)
    assert process.command == ("/mnt/models/.venv/bin/python", "/run/models/serve.py")


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("/mnt/models", "/run/models"),
        ("/mnt/models/bert/1", "/run/models/bert/1"),
        ("--dir=/mnt/models", "--dir=/run/models"),
        ("/mnt/models:/opt:/mnt/other", "/run/models:/opt:/run/mnt/other"),
        ('{"dir": "/mnt/models"}', '{"dir": "/run/models"}'),
        ("/mnt/models-of-yesterday", "/run/mnt/models-of-yesterday"),
        ("/data/mnt/models", "/data/mnt/models"),
        ("pvc://mnt/models", "pvc://mnt/models"),
        ("/mntx", "/mntx"),
    ],
)
def test_a_path_is_moved_where_it_stands_for_itself_and_the_longest_mount_wins(text: str, moved: str) -> None:
    assert plan(args=[text]).command == ("serve", moved)


@pytest.mark.parametrize(
    ("args", "moved"),
    [
        (["--http-port=8080"], ["--http-port=40001"]),
        (["--port", "8080"], ["--port", "40001"]),
        (["--port=9000"], ["--port=9000"]),
        (["--workers", "8080"], ["--workers", "8080"]),
        (["--limit=8080"], ["--limit=8080"]),
        (["port", "8080"], ["port", "8080"]),
    ],
)
def test_only_a_flag_for_a_port_gets_the_new_port(args: list[str], moved: list[str]) -> None:
    assert plan(args=args).command == ("serve", *moved)


def test_a_variable_for_a_port_gets_the_new_port() -> None:
    env = [{"name": "HTTP_PORT", "value": "8080"}, {"name": "LIMIT", "value": "8080"}]

    assert plan(env=env).env == {**ALWAYS, "HTTP_PORT": "40001", "LIMIT": "8080"}


def test_references_to_variables_are_filled_in_as_kubernetes_does() -> None:
    env = [{"name": "NAME", "value": "bert"}, {"name": "PATH_OF", "value": "/mnt/models/$(NAME)"}]

    process = plan(args=["$(PATH_OF)", "$$(NAME)", "$(UNKNOWN)"], env=env)

    assert process.command == ("serve", "/run/models/bert", "$(NAME)", "$(UNKNOWN)")
    assert process.env["PATH_OF"] == "/run/models/bert"


def test_a_variable_from_the_cluster_is_taken_from_this_machine() -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}}]

    assert plan(env=env).env == ALWAYS


def test_a_variable_of_the_container_wins_over_what_the_machine_gives() -> None:
    assert plan(env=[{"name": "TMPDIR", "value": "/mnt/models/tmp"}]).env == {**ALWAYS, "TMPDIR": "/run/models/tmp"}


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({"tcpSocket": {"port": 8080}}, Probe({"tcpSocket": {"port": 40001}})),
        ({"httpGet": {"port": 9000}}, Probe({"httpGet": {"port": 9000}})),
        (
            {"httpGet": {"port": 8080, "path": "/a", "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}},
            Probe(
                {
                    "httpGet": {
                        "port": 40001,
                        "path": "/a",
                        "scheme": "HTTPS",
                        "httpHeaders": [{"name": "A", "value": "b"}],
                    }
                }
            ),
        ),
        (
            {"grpc": {"port": 8080, "service": "live"}, "periodSeconds": 5},
            Probe({"grpc": {"port": 40001, "service": "live"}}, period=5),
        ),
        (
            {"exec": {"command": ["python", "/mnt/models/check.py"]}, "failureThreshold": 9, "timeoutSeconds": 2},
            Probe({"exec": {"command": ("/venv/bin/python", "/run/models/check.py")}}, failures=9, timeout=2),
        ),
        ({"tcpSocket": {"port": 8080}, "periodSeconds": 0}, Probe({"tcpSocket": {"port": 40001}}, period=1)),
    ],
)
def test_each_kind_of_probe_asks_the_process_on_this_machine(probe: dict[str, Any], expected: Probe) -> None:
    process = plan(readinessProbe=probe, livenessProbe=probe, startupProbe=probe)

    assert (process.readiness, process.liveness, process.startup) == (expected, expected, expected)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"command": []}, "svc/server has no command"),
        ({"args": [8080]}, "svc/server: 8080 in its command, args or env is not a string; put it in quotes"),
        ({"env": [{"name": "A", "value": True}]}, "svc/server: True in its command, args or env is not a string"),
        ({"env": [{"name": "KEY", "valueFrom": {}}]}, "svc/server takes KEY from the cluster .* export it"),
        ({"envFrom": [{"secretRef": {"name": "keys"}}]}, r"svc/server takes variables from the cluster \(envFrom\)"),
        ({"livenessProbe": {"exec": {"command": [None]}}}, "the livenessProbe of svc/server: None in its command"),
    ],
)
def test_what_cannot_be_run_here_is_refused_with_the_fix(container: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        plan(**container)
