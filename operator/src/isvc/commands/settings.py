"""What the servers will say of the settings of models at their start, for ``isvc inspect`` and ``isvc pack``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchserve_compat.store.known_settings import Runtime


def without_effect(
    properties: Mapping[str, str], archives: Mapping[str, Mapping[str, Any]], *, is_folder: bool
) -> list[str]:
    """Return the lines that each runtime logs that serves them.

    ``archives`` are the settings of each, by the name that the lines have. Without the servers' packages, there are no
    lines.
    """
    if not _are_servers_here():
        return []
    from torchserve_compat.store.known_settings import USUAL

    chosen = {name: value for name, value in properties.items() if name not in USUAL}
    found = []
    for name, settings in {"": chosen, **archives}.items():
        first, *others = (_said(runtime, settings, name) for runtime in _runtimes(is_folder=is_folder))
        found += [line for line in first if all(line in other for other in others)]
    return found


def of_one_runtime(properties: Mapping[str, str], told: Collection[str], *, is_folder: bool) -> list[str]:
    """Return what a runtime says of config.properties that is not ``told``: of settings that only the other one takes.

    Without the servers' packages, there are no lines.
    """
    if not _are_servers_here():
        return []
    lines = ((runtime.value, line) for runtime in _runtimes(is_folder=is_folder) for line in _said(runtime, properties))
    return [f"{runtime}: {line}" for runtime, line in lines if line not in told]


def _are_servers_here() -> bool:
    """Whether the servers' packages are installed."""
    return find_spec("data_plane") is not None


def _runtimes(*, is_folder: bool) -> list[Runtime]:
    """Return the runtimes that serve a model; isvc-mar alone serves a folder with a handler."""
    from torchserve_compat.store.known_settings import Runtime

    return [Runtime.MAR] if is_folder else list(Runtime)


def _said(runtime: Runtime, settings: Mapping[str, Any], archive: str = "") -> list[str]:
    """Return what a runtime says of the settings of an archive, else of those of config.properties."""
    from data_plane.model_server.errors import ConfigurationError
    from torchserve_compat.store import notices

    try:
        return notices.of_archive(runtime, archive, settings) if archive else notices.of_properties(runtime, settings)
    except ConfigurationError as error:
        return [str(error).removesuffix(".")]
