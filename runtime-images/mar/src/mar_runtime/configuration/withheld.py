"""Environment variables that models do not get, from `blacklist_env_vars` in config.properties. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from data_plane.model_server.errors import ConfigurationError


def withheld_variables(properties: Mapping[str, str], environment: Iterable[str]) -> tuple[str, ...]:
    """Return the variables whose full names match, as in TorchServe; raises ConfigurationError."""
    wanted = properties.get("blacklist_env_vars", "").strip()
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise ConfigurationError(
            f"blacklist_env_vars in config.properties is not a regular expression: {error}: {wanted!r}."
        ) from error
    return tuple(sorted(name for name in environment if pattern.fullmatch(name)))
