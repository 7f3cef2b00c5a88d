"""What the servers will say of the settings of models at their start, for ``inspect``, ``pack`` and ``run``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from isvc.run.children import Rendered
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


def unread(services: Iterable[Rendered], claims: Mapping[str, Path]) -> Iterator[str]:
    """Yield a line for each service whose config.properties is on this machine and has usual settings without effect.

    Of the others, its server warns.
    """
    if not _are_servers_here():
        return
    from data_plane.model_server.errors import ConfigurationError
    from torchserve_compat.store import properties
    from torchserve_compat.store.known_settings import PROPERTIES, USUAL, Effect, Runtime

    runtimes = {runtime.value: runtime for runtime in Runtime}
    for service in services:
        runtime = runtimes.get(service.resolved.chosen.runtime.metadata.name) if service.resolved.chosen else None
        folder = _folder_of(service, claims)
        file = _properties_in(folder) if folder else None
        if not runtime or not file:
            continue
        try:
            given = properties.parse(file.read_bytes(), str(file))
        except (ConfigurationError, OSError):
            continue  # its server says why
        usual = (name for name, value in given.items() if name in USUAL and value)
        if names := [name for name in usual if PROPERTIES[name].outcome(runtime, given[name]).effect is Effect.NONE]:
            listed, look = ", ".join(names), f"isvc inspect {quote(str(folder))}"
            yield f"{file}: {listed} ({runtime.value} does not use them; to see why: {look})"


def _are_servers_here() -> bool:
    """Whether the servers' packages are installed."""
    return find_spec("data_plane") is not None


def _folder_of(service: Rendered, claims: Mapping[str, Path]) -> Path | None:
    """Return the folder of this machine that is served, if it is one."""
    from isvc_operator.resolve.requested import model_of

    model = model_of(service.service.spec.predictor)
    parts = urlsplit((model.storage_uri if model else None) or "")
    root = {"pvc": claims.get(parts.netloc), "file": Path("/")}.get(parts.scheme)
    return root / parts.path.lstrip("/") if root else None


def _properties_in(folder: Path) -> Path | None:
    """Return the config.properties of a model store, or that beside a handler."""
    from model_archive.archive import is_source
    from model_archive.configuration import CONFIG

    places = (folder / CONFIG, *([folder / PurePath(CONFIG).name] if is_source(folder) else ()))
    return next((place for place in places if place.is_file()), None)


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
