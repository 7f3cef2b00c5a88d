"""What ends the adapter before it starts TorchServe: an exit code and one line in the termination log."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.model_folder import write_volume
from torchserve_adapter.__main__ import build_parser, main


def end(folder: Path, *flags: str) -> tuple[int, str]:
    """The exit code and the termination message of an adapter for the models in `folder`."""
    log = folder / "termination-log"
    arguments = ["--model-dir", str(folder), "--termination-log", str(log), "--host", "127.0.0.1", "--http-port", "0"]
    code = main([*arguments, *flags])
    return code, log.read_text()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("load_models=\\u00", "config/config.properties is not a Java properties file"),
        ("load_models=other.mar", "other.mar is not in the model store"),
        ("inference_address=https://0.0.0.0:8443", "asks for inference_address: https://0.0.0.0:8443, which would be"),
        ("service_envelope=v3", "There is no service envelope 'v3'; use one of kserve, kservev2, json, body, none."),
        ("metrics_config=metrics.yaml", "/metrics.yaml, which is not a file; a relative path begins at the model"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, config: str, message: str) -> None:
    code, reason = end(write_volume(tmp_path, config))

    assert (code, len(reason.splitlines())) == (3, 1)
    assert message in reason


def test_a_missing_configuration_is_told_where_it_belongs(tmp_path: Path) -> None:
    assert end(tmp_path) == (
        3,
        f"{tmp_path}/config/config.properties cannot be read (No such file or directory). "
        "Put config/config.properties into the storage, next to model-store/.",
    )


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, reason = end(tmp_path, "--http-port", str(port))

    assert code == 1
    assert reason.startswith(f"Port {port} cannot be opened: Address already in use")


def test_a_work_directory_with_too_long_a_path_for_sockets_is_named(tmp_path: Path) -> None:
    """The workers would die of it, and TorchServe's log says nothing that helps."""
    folder = write_volume(tmp_path) / ("x" * 100)
    excess = len(f"{folder}/tmp/.ts.sock.65535") - 103

    assert end(tmp_path, "--work-dir", str(folder)) == (
        1,
        f"The path of the work directory {folder} is {excess} bytes too long for TorchServe's sockets in it; "
        "choose a shorter one with --work-dir or TMPDIR.",
    )


def test_folders_may_be_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    options = build_parser({"WORK_DIR": "work"}).parse_args(["--model-dir", "models"])

    assert (options.model_dir, options.work_dir) == (tmp_path / "models", tmp_path / "work")
