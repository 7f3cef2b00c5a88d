"""What an archive asks for is installed in time, or it is said why not."""

from __future__ import annotations

import asyncio
import importlib.metadata
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from data_plane.model_server.errors import ModelFailed
from mar_runtime.archives import requirements
from tests.support.waiting import eventually
from tests.support.wheels import make_wheel


@pytest.fixture
def silent_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for name, value in (
            ("PIP_INDEX_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/simple"),
            ("PIP_CONFIG_FILE", "/dev/null"),
            ("PIP_FIND_LINKS", ""),
            ("NO_PROXY", "127.0.0.1"),
        ):
            monkeypatch.setenv(name, value)
        yield listener


def asking_for(folder: Path, *packages: str) -> Path:
    file = folder / "requirements.txt"
    file.write_text("\n".join(packages))
    return file


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_an_index_that_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "nothing-there")

    with pytest.raises(ModelFailed) as raised:
        await requirements.install(file, tmp_path / "packages", model="m", timeout_s=1)

    assert str(raised.value) == (
        "Model m: requirements.txt was not installed within 1 s; "
        "check that the package index is reachable, or put the packages into the image."
    )
    assert [child for child in psutil.Process().children() if str(file) in child.cmdline()] == []


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_a_server_that_stops_does_not_wait_for_pip(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "nothing-there")
    installing = asyncio.ensure_future(requirements.install(file, tmp_path / "packages", model="m", timeout_s=200))

    def running() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if str(file) in child.cmdline()]

    await asyncio.to_thread(eventually, running, "pip runs")
    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing

    assert running() == []


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"its manifest names missing.txt, which is not in the archive"):
        await requirements.install(tmp_path / "missing.txt", tmp_path / "packages", model="m", timeout_s=1)


@pytest.mark.process
async def test_pip_does_not_get_what_the_configuration_withholds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "no number")
    nothing = asking_for(tmp_path)

    with pytest.raises(ModelFailed, match="no number"):
        await requirements.install(nothing, tmp_path / "packages", model="m")
    await requirements.install(nothing, tmp_path / "packages", model="m", withheld=("PIP_TIMEOUT",))


@pytest.mark.process
async def test_what_the_image_has_satisfies_a_requirement(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "--no-index", "numpy", "orjson>=1")

    assert await requirements.install(file, tmp_path / "packages", model="m") is None


@pytest.mark.process
async def test_another_version_than_the_images_is_installed_beside_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "orjson", "another")
    file = asking_for(tmp_path, "--no-index", "numpy", f"orjson @ {wheel.as_uri()}")
    of_the_image = importlib.metadata.version("orjson")

    installed = await requirements.install(file, tmp_path / "packages", model="m")

    assert installed is not None
    assert sorted(path.name for path in installed.iterdir() if path.suffix != ".dist-info") == [
        "__pycache__",
        "orjson.py",
    ]
    assert importlib.metadata.version("orjson") == of_the_image


@pytest.mark.process
async def test_what_an_earlier_archive_of_the_model_brought_is_gone(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "words", "earlier")
    await requirements.install(
        asking_for(tmp_path, "--no-index", f"words @ {wheel.as_uri()}"), tmp_path / "packages", model="m"
    )

    file = asking_for(tmp_path, "--no-index", "words")
    with pytest.raises(ModelFailed, match="No matching distribution found for words"):
        await requirements.install(file, tmp_path / "packages", model="m")
