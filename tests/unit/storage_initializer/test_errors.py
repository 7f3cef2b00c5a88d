"""The exit codes are a contract: each error has its own, and the documents list the same ones."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from storage_initializer import errors
from storage_initializer.errors import InitializerError, Termination, UnreachableError, exit_codes

README = Path(errors.__file__).with_name("README.md")


def test_each_error_has_an_exit_code_of_its_own() -> None:
    codes = [cls.exit_code for cls in InitializerError.__subclasses__()]

    assert codes == list(range(2, 2 + len(codes)))


def test_the_readme_lists_every_exit_code_with_its_meaning() -> None:
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)

    assert {int(code): meaning for code, meaning in listed} == exit_codes()


def test_a_signal_gives_the_shells_exit_code() -> None:
    error = Termination(signal.SIGTERM, "SIGTERM")

    assert (error.exit_code, str(error)) == (143, "stopped by SIGTERM; start again to bring the model")


@pytest.mark.parametrize(
    ("host", "fix"),
    [
        ("minio.models:9000", "correct the endpoint"),
        ("notgoogleapis.com", "correct the endpoint"),
        ("storage.googleapis.com", "there is no DNS or no network"),
        ("huggingface.co:443", "there is no DNS or no network"),
        ("models.s3.eu-wst-1.amazonaws.com", "there is no DNS or no network, or no such region"),
        ("models.s3.cn-nrth-1.amazonaws.com.cn", "there is no DNS or no network, or no such region"),
        ("login.microsoftonline.us", "there is no DNS or no network"),
        ("acount.blob.core.chinacloudapi.cn", "there is no DNS or no network, or no such storage account"),
        ("acount.blob.core.windows.net", "there is no DNS or no network, or no such storage account"),
    ],
)
def test_a_name_that_nobody_has_set_is_not_said_to_be_a_wrong_endpoint(host: str, fix: str) -> None:
    error = UnreachableError.unknown_name(host, "Name or service not known")

    assert str(error) == f"the name {host} is not known (Name or service not known); {fix}"
