"""Variables of the environment that models do not get, by `blacklist_env_vars` of config.properties. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from data_plane.model_server.errors import ConfigurationError


def withheld_variables(properties: Mapping[str, str], environment: Iterable[str]) -> tuple[str, ...]:
    """As in TorchServe, those whose whole names match the regular expression; raises ConfigurationError."""
    wanted = properties.get("blacklist_env_vars", "").strip()
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise ConfigurationError(
            f"blacklist_env_vars in config.properties is no regular expression: {error}: {wanted!r}."
        ) from error
    return tuple(sorted(name for name in environment if pattern.fullmatch(name)))
