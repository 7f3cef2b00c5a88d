"""What the servers will say of the settings of models at their start, for ``isvc inspect`` and ``isvc pack``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_effect(
    properties: Mapping[str, str], archives: Mapping[str, Mapping[str, Any]], *, is_folder: bool
) -> list[str]:
    """Return the lines that each runtime logs that serves them; isvc-mar alone serves a folder with a handler.

    ``archives`` are the settings of each, by the name that the lines have. Without the servers' packages, there are no
    lines.
    """
    try:
        from data_plane.model_server.errors import ConfigurationError
        from torchserve_compat.store import notices
        from torchserve_compat.store.known_settings import USUAL, Runtime
    except ModuleNotFoundError:
        return []
    chosen = {name: value for name, value in properties.items() if name not in USUAL}

    def said(runtime: Runtime, name: str) -> list[str]:
        try:
            return notices.of_archive(runtime, name, archives[name]) if name else notices.of_properties(runtime, chosen)
        except ConfigurationError as error:
            return [str(error).removesuffix(".") if not name else f"{name}: {str(error).removesuffix('.')}"]

    runtimes = [Runtime.MAR] if is_folder else list(Runtime)
    found = []
    for name in ("", *archives):
        first, *others = (said(runtime, name) for runtime in runtimes)
        found += [line for line in first if all(line in other for other in others)]
    return found
