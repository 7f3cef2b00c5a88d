"""The distributions as users install them: what they hold, alone and together."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from hack.release.__main__ import require_equal
from hack.release.build import DISTRIBUTIONS, build
from hack.release.version import current_version
from tests.support.model_folder import write_files
from tests.support.ports import free_port
from tests.support.source_tree import copy_of_the_tree

RELEASED = datetime(2026, 1, 1, tzinfo=UTC)
REPOSITORY = "https://git.example.com/isvc"
ENVIRONMENT = {**os.environ, "REGISTRY": "registry.example.com/isvc", "TAG": "7", "REPOSITORY": REPOSITORY}
UV = str(Path(sys.executable).with_name("uv"))
# Where packages lie, and the folders there that are none.
ROOTS = ("", "operator/src", "runtime-images/common/src", "runtime-images/torchserve/src", "runtime-images/mar/src")
OTHERS = ("docs/", "examples/", "hack/", "operator/", "runtime-images/", "tests/")
COMMANDS = [
    ["-m", "isvc_operator"],
    ["-m", "storage_initializer"],
    ["-m", "torchserve_adapter"],
    ["-m", "mar_runtime"],
    ["isvc"],
]
IMPORTED = re.compile(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;")
CLEAN = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: largest}
spec: {predictor: {model: {modelFormat: {name: pytorch}, storageUri: "pvc://models"}}}
"""
TEST_PACKAGES = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
FOUND = """
import importlib.util
names = (
    "data_plane", "isvc", "isvc_operator", "model_archive", "storage_initializer", "torchserve_compat",
    "transformer_sdk",
)
specs = {name: importlib.util.find_spec(name) for name in names}
print(*(name for name in names if specs[name] and specs[name].origin and "site-packages" in specs[name].origin))
"""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_tree(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def dist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(source, folder, RELEASED, ENVIRONMENT)
    return folder


@pytest.fixture(scope="module")
def wheels(dist: Path) -> list[Path]:
    return sorted(dist.glob("*.whl"))


def modules_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def test_a_second_build_in_another_folder_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "dist"
    again.mkdir()

    build(copy_of_the_tree(tmp_path / "another place"), again, RELEASED, ENVIRONMENT)

    require_equal(dist, again)


def test_a_release_holds_these_files_and_their_checksums(dist: Path) -> None:
    version = current_version()
    names = ("isvc_data_plane", "isvc_operator", "isvc_transformer_sdk")
    packages = [f"{name}-{version}{end}" for name in names for end in ("-py3-none-any.whl", ".tar.gz")]
    others = [
        "constraints-without-hashes.txt",
        "constraints.txt",
        "dashboard.yaml",
        "images.txt",
        "install-crds.yaml",
        "install-ha.yaml",
        "install-local.yaml",
        "install-namespaced.yaml",
        "install-restricted.yaml",
        "install.yaml",
        f"isvc-operator-{version}.tgz",
        f"isvc-operator-docs-{version}.tar.gz",
        f"isvc-operator-crds-{version}.tgz",
        "runtimes-kserve.yaml",
        "sbom.cdx.json",
    ]

    assert {path.name for path in dist.iterdir()} == {*packages, *others, "SHA256SUMS"}
    assert run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], dist) == ""
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == len(packages) + len(others)


def test_manifests_name_the_images_of_the_registry_and_tag(dist: Path) -> None:
    images = (dist / "images.txt").read_text().split()
    manifests = (dist / "install.yaml").read_text() + (dist / "dashboard.yaml").read_text()

    named = {name for name in images if name in manifests}

    assert [image for image in images if not image.startswith("registry.example.com/isvc/")] == []
    assert named == {image for image in images if not image.endswith("/transformer:7")}
    assert "localhost/" not in manifests


@pytest.fixture(scope="module")
def site(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with tarfile.open(dist / f"isvc-operator-docs-{current_version()}.tar.gz") as opened:
        opened.extractall(folder, filter="data")
    return folder / "docs"


def test_the_side_bar_of_the_site_has_each_page(site: Path, source: Path) -> None:
    pages = {path.relative_to(source).with_suffix(".html").as_posix() for path in (source / "docs").glob("*.md")}
    bar = re.search(r'<div class="sidebar-tree">.*?</div>', (site / "README.html").read_text(), re.DOTALL)
    assert bar

    assert pages - set(re.findall(r'href="([^"#]+)"', bar[0])) == {"docs/README.html"}


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|link|source)\b[^>]*(?:src|href)="((?:https?:)?//[^"]*)"')
    texts = {path: path.read_text() for path in (*site.rglob("*.html"), *site.rglob("*.css"))}

    assert {
        path: found for path, text in texts.items() if (found := loaded.findall(text) + IMPORTED.findall(text))
    } == {}


def test_the_site_of_a_release_names_what_is_published(site: Path) -> None:
    version = current_version()
    text = html.unescape(re.sub(r"<[^>]+>", "", (site / "docs/install.html").read_text()))
    code_map = (site / "docs/code-map.html").read_text()

    assert f"-f {REPOSITORY}/releases/download/v{version}/install-crds.yaml" in text
    assert f"oci://registry.example.com/isvc/charts/isvc-operator --version {version}" in text
    assert f'href="{REPOSITORY}/tree/v{version}/operator/src/isvc/commands"' in code_map


def test_each_wheel_has_the_license(wheels: list[Path], source: Path) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            (found,) = (name for name in opened.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
            assert opened.read(found) == (source / "LICENSE").read_bytes()


def test_a_file_belongs_to_one_distribution(wheels: list[Path]) -> None:
    assert [
        (one.name, other.name) for one, other in combinations(wheels, 2) if modules_of(one) & modules_of(other)
    ] == []


def test_every_module_that_the_repository_ships_is_in_one(source: Path, wheels: list[Path]) -> None:
    modules = {
        path.relative_to(source / root).as_posix() for root in ROOTS for path in (source / root).glob("*/**/*.py")
    }
    shipped = set[str]().union(*map(modules_of, wheels))

    assert {name for name in modules if not name.startswith(OTHERS)} - shipped == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_a_wheel_built_from_the_sdist_is_the_same(folder: str, source: Path, dist: Path, tmp_path: Path) -> None:
    name = (source / folder / "pyproject.toml").read_text().partition('name = "')[2].partition('"')[0].replace("-", "_")
    (wheel,) = dist.glob(f"{name}-*.whl")
    with tarfile.open(dist / wheel.name.replace("-py3-none-any.whl", ".tar.gz")) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()

    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    run(command, unpacked, {**ENVIRONMENT, "SOURCE_DATE_EPOCH": str(int(RELEASED.timestamp()))})

    assert (tmp_path / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


def environment_with(wanted: Sequence[str], source: Path, folder: Path) -> Path:
    """Install into an empty environment; return its interpreter."""
    run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], folder)
    python = folder / "bin/python"
    pins = str(source / "constraints.txt")
    run([UV, "pip", "install", "--quiet", "--python", str(python), "--constraint", pins, *wanted], folder)
    return python


@pytest.fixture(scope="module")
def installed(wheels: list[Path], source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with all wheels, and with everything that their extras name."""
    wanted = [f"{wheel}[local]" if "isvc_operator" in wheel.name else str(wheel) for wheel in wheels]
    return environment_with(wanted, source, tmp_path_factory.mktemp("environment"))


def test_all_wheels_live_in_one_environment_and_miss_nothing(installed: Path, tmp_path: Path) -> None:
    run([UV, "pip", "check", "--quiet", "--python", str(installed)], tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_starts_there(command: list[str], installed: Path, tmp_path: Path) -> None:
    arguments = [str(installed.with_name("isvc")) if part == "isvc" else part for part in command]

    printed = run([str(installed), *arguments, "--help"], tmp_path, CLEAN)

    assert printed.lower().startswith("usage: ")


def test_the_first_five_minutes_are_as_the_page_says(installed: Path, source: Path, tmp_path: Path) -> None:
    page = (source / "docs/first-five-minutes.md").read_text()
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    commands = commands.replace("--watch", f"--http-port={free_port()} --request largest/sample.json")
    printed = run(
        ["bash", "-euo", "pipefail", "-c", commands], tmp_path, {**CLEAN, "PATH": f"{installed.parent}:/usr/bin:/bin"}
    )

    assert '{"predictions":[1,0]}' in page
    assert printed.splitlines()[-1] == '{"predictions":[1,0]}'


PIPX = "pipx==1.18.4"
# How `isvc` is installed, if it is, and how it is run then.
WAYS = {
    "uv tool install": (
        "uv tool install --python {python} --constraints {dist}/constraints.txt {wheel}[cli]",
        "bin/isvc",
    ),
    "pipx install": (
        f"uvx --from {PIPX} pipx install --python {{python}} "
        "--pip-args='--constraint {dist}/constraints-without-hashes.txt' {wheel}[cli]",
        "bin/isvc",
    ),
    "uvx": (
        "true",
        "uvx --python {python} --constraints {dist}/constraints.txt --from {wheel}[cli] isvc",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_light_installation_does_everything_but_serve(
    way: str, wheels: list[Path], dist: Path, tmp_path: Path
) -> None:
    """Without torch, Java and the data plane."""
    (wheel,) = (one for one in wheels if "isvc_operator" in one.name)
    install, isvc = (text.format(python=sys.executable, dist=dist, wheel=wheel) for text in WAYS[way])
    folders = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "tools", "PIPX_BIN_DIR": "bin"}
    folders_there = {name: str(tmp_path / folder) for name, folder in folders.items()}
    environment = {**os.environ, **folders_there, "PATH": f"{Path(UV).parent}:/usr/bin:/bin"}
    run(["bash", "-c", install], tmp_path, environment)
    write_files(tmp_path / "volume", {"config/config.properties": b"load_models=all\n", "model-store/empty": b""})
    commands = [
        "new model largest",
        "validate largest/inferenceservice.yaml",
        "pack largest/largest --export-path volume/model-store",
        "inspect volume",
        "bench --help",
    ]

    printed = [run(["bash", "-c", f"{isvc} {one}"], tmp_path, environment) for one in commands]

    assert "model-store/largest.mar" in printed[3]
    assert all(printed[number] for number in (0, 2, 4))
    places = list(tmp_path.glob("tools/**/site-packages"))
    assert bool(places) == (way != "uvx")  # which keeps what it runs elsewhere
    assert [place for place in places if (place / "torch").exists()] == []


# What a command needs beyond the extra, and where that is.
LACKS: dict[str, dict[str, str | None]] = {
    "": {"--help": "cli", "validate service.yaml": "cli", "inspect .": "cli"},
    "operator": {"--help": None, "validate service.yaml": "validate"},
    "cli": {
        "validate service.yaml": None,
        "run service.yaml --pvc models=. --http-port PORT": "local",  # 8080 may be the cluster's
        "inspect hf://a/b": "cli,storage",
    },
}


@pytest.mark.parametrize("extra", LACKS)
def test_a_command_names_the_extra_that_it_lacks(extra: str, wheels: list[Path], source: Path, tmp_path: Path) -> None:
    (wheel,) = (str(one) for one in wheels if "isvc_operator" in one.name)
    (tmp_path / "environment").mkdir()
    python = environment_with([f"{wheel}[{extra}]" if extra else wheel], source, tmp_path / "environment")
    (tmp_path / "service.yaml").write_text(SERVICE)

    for command, lacking in LACKS[extra].items():
        isvc = [str(python.with_name("isvc")), *command.replace("PORT", str(free_port())).split()]
        done = subprocess.run(isvc, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=False)
        if lacking is None:
            assert done.returncode == 0, (command, done.stderr)
        else:
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (command, done.stderr)
            assert done.stderr.endswith(f"run: pip install 'isvc-operator[{lacking}]'\n"), (command, done.stderr)


def test_the_bill_names_what_is_installed(installed: Path, dist: Path, tmp_path: Path) -> None:
    listed = run([UV, "pip", "list", "--format=json", "--python", str(installed)], tmp_path)
    bill = json.loads((dist / "sbom.cdx.json").read_text())

    components = (bill["metadata"]["component"], *bill["components"])
    named = {(canonicalize_name(component["name"]), component["version"]) for component in components}

    assert {(package["name"], package["version"]) for package in json.loads(listed)} - named == set()
    assert not {name for name, _ in named} & {"pytest", "kserve"}


def test_the_sdks_own_tests_pass_where_only_its_wheels_are(wheels: list[Path], source: Path, tmp_path: Path) -> None:
    sdk, data_plane = (
        next(str(one) for one in wheels if name in one.name) for name in ("transformer_sdk", "data_plane")
    )
    (tmp_path / "environment").mkdir()
    wanted = [f"{sdk}[fast,numpy,grpc,pandas,multipart]", data_plane, *TEST_PACKAGES]
    python = environment_with(wanted, source, tmp_path / "environment")
    shutil.copytree(source / "tests", tmp_path / "tests")
    for name in ("pyproject.toml", "runtime-images/common/src/data_plane/pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, tmp_path / name)

    options = ["-q", "-p", "no:cacheprovider"]
    printed = run([str(python), "-m", "pytest", "tests/unit/kserve_sdk", *options], tmp_path, CLEAN)
    ours = run([str(python), "-c", FOUND], tmp_path, CLEAN)

    assert re.fullmatch(r"\d+ passed in .*", printed.splitlines()[-1])
    assert ours.split() == ["data_plane", "transformer_sdk"]
