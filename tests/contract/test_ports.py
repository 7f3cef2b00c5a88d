"""The operator, the servers and the shipped runtimes agree on the ports that nobody asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from data_plane.ports import GRPC_PORT, HTTP_PORT
from isvc_operator.resolve.ports import DEFAULT_GRPC_PORT, DEFAULT_PORT

RUNTIMES = Path(__file__).parents[2] / "manifests/runtimes-kserve"


def test_the_operator_expects_servers_where_they_listen() -> None:
    assert (DEFAULT_PORT, DEFAULT_GRPC_PORT) == (HTTP_PORT, GRPC_PORT)


@pytest.mark.parametrize("file", sorted(RUNTIMES.glob("kserve-*.yaml")), ids=lambda file: file.stem)
def test_a_runtime_without_ports_is_told_the_operators(file: Path) -> None:
    [container] = yaml.safe_load(file.read_text())["spec"]["containers"]

    told = {item.partition("=")[2] for item in container.get("args", ())}
    told |= {item.get("value") for item in container.get("env", ())}
    probed = {container[name]["httpGet"]["port"] for name in container if name.endswith("Probe")}
    assert ("ports" in container, str(DEFAULT_PORT) in told, probed <= {DEFAULT_PORT}) == (False, True, True)
