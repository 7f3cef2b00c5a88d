"""What an archive asks for is installed in time, or it is said why not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil
import pytest

from data_plane.model_server.errors import ModelFailed
from tests.support.package_servers import package_index
from tests.support.waiting import eventually
from tests.support.wheels import make_project, make_wheel
from torchserve_compat.packages import installation
from torchserve_compat.packages.installation import Installer


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


_INSTALLED = r"is installed beside the server .*, for all models\. Allow that version, or install another there\.$"
_OR_BESIDE = r".*, or install the package beside the server \(on a cluster: in its image\)\.$"


def asking_for(folder: Path, *packages: str) -> Path:
    file = folder / "requirements.txt"
    file.write_text("\n".join(packages))
    return file


def installers_of(file: Path) -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # another one has ended just now
            found += [child] if str(file) in child.cmdline() else []
    return found


def modules_in(packages: Path | None) -> list[str]:
    assert packages is not None
    return sorted(path.name for path in packages.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_an_index_that_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "nothing-there")

    with pytest.raises(ModelFailed) as raised:
        await Installer().install(file, tmp_path / "work", model="m", timeout_s=1)

    assert str(raised.value) == (
        "Model m: requirements.txt was not installed within 1 s; "
        "check that the package index is reachable, or install the packages beside the server (on a cluster: in its "
        "image)."
    )
    assert installers_of(file) == []


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_a_server_that_stops_does_not_wait_for_uv(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "nothing-there")
    installing = asyncio.ensure_future(Installer().install(file, tmp_path / "work", model="m", timeout_s=200))

    await asyncio.to_thread(eventually, lambda: installers_of(file), "uv runs")
    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing

    assert installers_of(file) == []


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_uv_that_has_ended_by_itself_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.killpg

    def has_ended(group: int, number: int) -> None:
        kill(group, number)
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", has_ended)

    with pytest.raises(ModelFailed, match="was not installed within"):
        await Installer().install(asking_for(tmp_path, "six"), tmp_path / "work", model="m", timeout_s=1)


async def test_pip_has_ended_when_an_installation_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    async def reads_its_settings(*_: object) -> None:
        try:
            await asyncio.sleep(200)
        finally:
            await asyncio.sleep(0.05)  # until pip is reaped
            said.append("pip has ended")

    monkeypatch.setattr(installation, "uv_like_pip", reads_its_settings)

    with pytest.raises(ModelFailed, match="was not installed within"):
        await Installer().install(asking_for(tmp_path, "six"), tmp_path, model="m", timeout_s=0.1)
    assert said == ["pip has ended"]


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"its manifest names missing.txt, which is not in the archive"):
        await Installer().install(tmp_path / "missing.txt", tmp_path / "work", model="m", timeout_s=1)


@pytest.mark.process
async def test_uv_does_not_get_what_the_configuration_withholds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(make_wheel(tmp_path, "words", "found").parent))
    file = asking_for(tmp_path, "words")

    assert modules_in(await Installer().install(file, tmp_path / "work", model="m")) == ["words.py"]
    with pytest.raises(ModelFailed, match="it requires words, but the package index has no words"):
        await Installer(withheld=("PIP_FIND_LINKS",)).install(file, tmp_path / "work", model="m")


@pytest.mark.process
async def test_the_settings_of_pips_files_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_wheel(tmp_path, "words", "found").parent
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\n[install]\nfind-links =\n    {folder}\n    {tmp_path}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    installed = await Installer().install(asking_for(tmp_path, "words"), tmp_path / "work", model="m")

    assert modules_in(installed) == ["words.py"]


@pytest.mark.process
async def test_find_links_that_are_not_there_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = [str(tmp_path / "gone"), (tmp_path / "gone").as_uri(), "gone"]
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join([*gone, str(make_wheel(tmp_path, "words", "found").parent)]))

    installed = await Installer().install(asking_for(tmp_path, "--no-index", "words"), tmp_path / "work", model="m")

    assert modules_in(installed) == ["words.py"]
    assert f"ignoring find-links that are not there, as pip does: {', '.join(gone)}" in caplog.messages


FILES = {
    "CRLF and comments": b"# comment\r\nwords  # why\r\n",
    "UTF-16": "words\n".encode("utf-16"),
    "UTF-8 with a mark": "words  # für Wörter\n".encode("utf-8-sig"),
    "no end of the last line": b"words",
    "a line in two": b"words==1 \\\n    --hash=sha256:DIGEST\n",
    "another file": b"-r more.txt\n",
    "constraints": b"-c constraints.txt\nwords\n",
    "a pin": b"words==1\n",
    "a range": b"words>=0.9,<2,!=1.5\n",
    "a compatible version": b"words~=1.0\n",
    "any patch": b"words==1.*\n",
    "an extra": b"words[extra]\n",
    "markers": b"words; python_version >= '3'\nmissing; python_version < '3'\n",
    "a platform": b"words\nmissing; sys_platform == 'win32'\n",
    "names of other spelling": b"Words\nNumPy>=1\nPyYAML\n",
    "what the image has": b"torch\ntorchvision\nnumpy\nwords\n",
    "ranges of what the image has": b"torch>=2\nnumpy>=1.20\npillow\nwords\n",
    "a path": b"./words-1-py3-none-any.whl\n",
    "a path with a name": b"words @ file://FOLDER/words-1-py3-none-any.whl\n",
    "a URL": b"words @ URL/words-1-py3-none-any.whl\n",
    "a hash": b"words==1 --hash=sha256:DIGEST\n",
    "a folder, editable": b"-e ./mine\nwords\n",
}


@pytest.mark.process
@pytest.mark.parametrize("name", FILES)
async def test_a_file_is_read_as_pip_reads_it_and_brings_nothing_that_the_image_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wheel = make_wheel(tmp_path, "words", "found", "torch", "numpy>=1", "torchvision", "msgspec")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    make_project(tmp_path / "mine", "found")
    (tmp_path / "more.txt").write_text("words")
    (tmp_path / "constraints.txt").write_text("words<2\ntorch>=1")
    file = tmp_path / "requirements.txt"
    with package_index(tmp_path) as index:
        known = {"DIGEST": digest, "FOLDER": str(tmp_path), "URL": index.url.rstrip("/")}
        file.write_bytes(re.sub(rb"DIGEST|FOLDER|URL", lambda found: known[found[0].decode()].encode(), FILES[name]))
        installed = await Installer().install(file, tmp_path / "work", model="m")

    assert installed is not None
    own = {"mine"} if name == "a folder, editable" else set()
    assert {found.name for found in metadata.distributions(path=[str(installed)])} == {"words"} | own
    assert modules_in(installed) == sorted(f"{one}.py" for one in {"words"} | own)


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("words==1 --hash=sha256:" + 64 * "0", "Hash mismatch for `words==1`"),
        ("words=1", "requirements.txt` at position"),
        ("numpy<2", rf"it requires numpy<2, but numpy {metadata.version('numpy')} {_INSTALLED}"),
        ("old", rf"old requires torch<1, but torch {metadata.version('torch')} {_INSTALLED}"),
        ("words>=2", rf"it requires words>=2, but the package index has only words==1. Ask {_OR_BESIDE}"),
        ("words>1,<2", rf"it requires words>1,<2, but the package index has only words==1. Ask {_OR_BESIDE}"),
        ("words==2", rf"it requires words==2, but the package index has no such version. Ask {_OR_BESIDE}"),
        ("gone", rf"it requires gone, but the package index has no gone. Correct its name, .*{_OR_BESIDE}"),
        ("lacking", rf"lacking requires gone, but the package index has no gone. Correct its name, .*{_OR_BESIDE}"),
        ("words==1\nwords==1.1", "Because you require words==1 and words==1.1, we can conclude .* Correct it, or "),
    ],
    ids=[
        "another digest", "no requirement", "another numpy than the image's", "another torch by what it requires",
        "later ones", "one between", "one that is not there", "no package", "no package by what it requires",
        "lines that rule each other out",
    ],
)  # fmt: skip
async def test_what_cannot_be_installed_is_named(tmp_path: Path, line: str, reason: str) -> None:
    make_wheel(tmp_path, "words", "found")
    make_wheel(tmp_path, "old", "requires", "torch<1")
    make_wheel(tmp_path, "lacking", "requires", "gone")
    file = asking_for(tmp_path, "--no-index", f"--find-links {tmp_path}", line)

    with pytest.raises(
        ModelFailed, match=f"^Model m: requirements.txt, lines? 3( and 4)?, could not be installed: .*{reason}"
    ):
        await Installer().install(file, tmp_path / "work", model="m")


@pytest.mark.process
async def test_all_lines_are_named_that_rule_each_other_out(tmp_path: Path) -> None:
    make_wheel(tmp_path, "one", "requires", "two>1")
    make_wheel(tmp_path, "two", "old")
    file = asking_for(tmp_path, "--no-index", f"--find-links {tmp_path}", "# comment", "one", "numpy", "two<2")

    with pytest.raises(ModelFailed, match=r"^Model m: requirements.txt, lines 4 and 6, could not be installed: "):
        await Installer().install(file, tmp_path / "work", model="m")


@pytest.mark.process
@pytest.mark.usefixtures("silent_index")
async def test_the_credentials_of_an_address_are_in_no_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    make_wheel(tmp_path, "words", "found")
    with package_index(tmp_path) as index:
        address = f"user:s3cret@{index.url.removeprefix('http://')}words-1-py3-none-any.whl"
        file = asking_for(tmp_path, f"words @ http://{address}")
        assert modules_in(await Installer().install(file, tmp_path / "work", model="m")) == ["words.py"]
        failures = []
        for line in (
            f"words @ http://{address}.gone",
            f"words = http://{address}",
            f"--no-index\nw @ http://t0ken@{address}",
        ):
            with pytest.raises(ModelFailed) as raised:
                await Installer().install(asking_for(tmp_path, line), tmp_path / "work", model="m")
            failures.append(str(raised.value))

    assert [text for text in (*failures, caplog.text) if "s3cret" in text or "t0ken" in text] == []
    assert "installing for requirements.txt: words @ http://127.0.0.1" in caplog.text


@pytest.mark.process
async def test_what_the_image_has_satisfies_a_requirement(tmp_path: Path) -> None:
    file = asking_for(tmp_path, "--no-index", "numpy", "orjson>=1")

    assert await Installer().install(file, tmp_path / "work", model="m") is None


@pytest.mark.process
async def test_another_version_than_the_images_is_installed_beside_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "orjson", "another")
    file = asking_for(tmp_path, "--no-index", "numpy", f"orjson @ {wheel.as_uri()}")
    of_the_image = metadata.version("orjson")

    installed = await Installer().install(file, tmp_path / "work", model="m")

    assert installed is not None
    assert modules_in(installed) == ["orjson.py"]
    assert metadata.version("orjson") == of_the_image


@pytest.mark.process
async def test_what_an_earlier_archive_of_the_model_brought_is_gone(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "words", "earlier")
    await Installer().install(
        asking_for(tmp_path, "--no-index", f"words @ {wheel.as_uri()}"), tmp_path / "work", model="m"
    )

    file = asking_for(tmp_path, "--no-index", "words")
    with pytest.raises(ModelFailed, match="it requires words, but the package index has no words"):
        await Installer().install(file, tmp_path / "work", model="m")
