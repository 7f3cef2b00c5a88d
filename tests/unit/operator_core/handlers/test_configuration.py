"""The configuration as files of a mounted ConfigMap, and how a change of them is noticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig, parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.handlers import configuration
from isvc_operator.handlers.configuration import follow_config, read_data


def written(folder: Path, domain: str) -> OperatorConfig:
    (folder / "ingress").write_text(f'{{"ingressDomain": "{domain}"}}')
    return OperatorConfig(ingress=IngressConfig(ingress_domain=domain))


@asynccontextmanager
async def following(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[OperatorConfig]]:
    """The configurations that are noticed; the folder is read in every iteration of the event loop."""
    monkeypatch.setattr(configuration, "POLL", 0)
    used: list[OperatorConfig] = []

    async def use(config: OperatorConfig, ignored: list[str]) -> None:
        used.append(config)
        assert ignored == (["unknown"] if (folder / "unknown").exists() else [])

    task = asyncio.create_task(follow_config(folder, use))
    await turns()
    try:
        yield used
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


async def test_a_change_is_used_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "first.test")
    (tmp_path / "unknown").write_text("{}")
    async with following(tmp_path, monkeypatch) as used:
        assert used == []
        second = written(tmp_path, "second.test")
        await turns()

    assert used == [second]


async def test_a_change_that_cannot_be_used_is_logged_and_the_next_one_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path, monkeypatch) as used:
        (tmp_path / "ingress").write_text("{")
        await turns()
        assert used == []
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert "the previous configuration stays in use" in caplog.text
        mended = written(tmp_path, "mended.test")
        await turns()

    assert used == [mended]


async def test_a_folder_that_is_missing_for_a_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, away = tmp_path / "config", tmp_path / "away"
    folder.mkdir()
    async with following(folder, monkeypatch) as used:
        folder.rename(away)
        await turns()
        assert used == []
        mended = written(away, "mended.test")
        away.rename(folder)
        await turns()

    assert used == [mended]
    assert "does not exist" in caplog.text
