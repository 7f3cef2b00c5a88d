"""The configuration as files of a mounted ConfigMap, and how a change of them is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig, parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.handlers import configuration
from isvc_operator.handlers.configuration import follow_config, read_data


def written(folder: Path, domain: str) -> OperatorConfig:
    (folder / "ingress").write_text(f'{{"ingressDomain": "{domain}"}}')
    return OperatorConfig(ingress=IngressConfig(ingress_domain=domain))


@dataclass(frozen=True)
class Noticed:
    """The configurations that are used, with what has no effect, and why others are refused, each time."""

    used: list[tuple[OperatorConfig, list[str]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def use(self, config: OperatorConfig, ignored: list[str]) -> None:
        self.used.append((config, ignored))

    async def refuse(self, problem: str) -> None:
        self.refused.append(problem)


@asynccontextmanager
async def following(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Noticed]:
    """What is noticed; the folder is read in every iteration of the event loop."""
    monkeypatch.setattr(configuration, "POLL", 0)
    noticed = Noticed()
    task = asyncio.create_task(follow_config(folder, noticed.use, noticed.refuse))
    await turns()
    try:
        yield noticed
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_no_folder_means_the_defaults() -> None:
    assert parse_config(read_data(None)) == OperatorConfig()


def test_each_file_is_a_key_and_folders_are_none(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    expected = written(tmp_path, "ml.test")

    assert parse_config(read_data(tmp_path)) == expected


def test_a_binary_file_is_ignored_if_its_name_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "logo").write_bytes(b"\xff\xfe\x00")

    assert parse_config(read_data(tmp_path)) == OperatorConfig()


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; mount the ConfigMap there"):
        read_data(tmp_path / "none")


async def test_the_present_one_and_each_change_is_used_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path, "first.test")
    (tmp_path / "unknown").write_text("{}")
    async with following(tmp_path, monkeypatch) as noticed:
        second = written(tmp_path, "second.test")
        await turns()

    assert noticed == Noticed(used=[(first, ["unknown"]), (second, ["unknown"])])


async def test_a_folder_that_is_missing_for_a_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, away = tmp_path / "config", tmp_path / "away"
    folder.mkdir()
    first = written(folder, "first.test")
    async with following(folder, monkeypatch) as noticed:
        folder.rename(away)
        await turns()
        away.rename(folder)
        await turns()

    assert noticed.used == [(first, [])] * 2
    assert set(noticed.refused) == {f"configuration folder {folder} does not exist; mount the ConfigMap there"}
