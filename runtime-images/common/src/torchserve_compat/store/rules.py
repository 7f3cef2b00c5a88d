"""Rules that change the user's configuration for both runtimes. Pure.

Each rule is a function on the draft; `effective` applies them in order. Other settings stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from data_plane.limits import MAX_REQUEST
from data_plane.model_server.errors import ConfigurationError
from model_archive.configuration import STORES
from torchserve_compat.store.known_settings import PROPERTIES, variable
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.settings import whole

# Names that TorchServe reads from the environment in another way.
_NOT_SETTINGS = ("model_server_home",)
_PLACEHOLDER = re.compile(r"\$\$([^$]+)\$\$")


@dataclass(frozen=True)
class RuleInputs:
    """The inputs of the rules. ``flags`` are settings that are given on the command line."""

    model_dir: Path
    environment: Mapping[str, str]
    is_directory: Callable[[Path], bool]
    max_request_size: int | None = None
    flags: Mapping[str, str] = field(default_factory=dict)


S = TypeVar("S", bound=RuleInputs)
Rule = Callable[[Draft, S], None]


def effective(properties: Mapping[str, str], inputs: S, rules: Sequence[Rule[S]]) -> Draft:
    """Return the effective configuration with all changes; raises ConfigurationError."""
    draft = Draft(dict(properties))
    for rule in rules:
        rule(draft, inputs)
    return draft


def environment(draft: Draft, inputs: RuleInputs) -> None:
    if not draft.is_true("enable_envvars_config"):
        return
    variables = {variable(name): name for name in PROPERTIES if name not in _NOT_SETTINGS}
    for name, value in sorted(inputs.environment.items()):
        setting = variables.get(name)
        if setting and (setting != "allowed_urls" or draft.is_true("use_env_allowed_urls")):
            draft.set(setting, value.strip(), f"from the environment variable {name}")
    draft.set("enable_envvars_config", "false", "the TS_ variables are already in here; none may undo a change")


def flags(draft: Draft, inputs: RuleInputs) -> None:
    for setting, value in inputs.flags.items():
        draft.set(setting, value, "from the command line")


def placeholders(draft: Draft, inputs: RuleInputs) -> None:
    def value_of(match: re.Match[str]) -> str:
        try:
            return inputs.environment[match[1]]
        except KeyError:
            raise ConfigurationError(
                f"config.properties uses {match[0]}, but the environment has no {match[1]}; set it there."
            ) from None

    for setting, value in list(draft.properties.items()):
        draft.set(setting, _PLACEHOLDER.sub(value_of, value), "environment variables filled in")


def model_store(draft: Draft, inputs: RuleInputs) -> None:
    named = Path(draft.get("model_store") or STORES[0])
    candidates = [inputs.model_dir / name for name in (named, *STORES)]
    for store in candidates:
        if inputs.is_directory(store):
            why = "relative to the model directory" if store == candidates[0] else f"there is no {candidates[0]}"
            draft.set("model_store", str(store), why)
            return
    raise ConfigurationError(
        f"There is no model store: neither {' nor '.join(dict.fromkeys(map(str, candidates)))} is a directory. "
        "Put the .mar files into model-store/ next to config/ in the storage."
    )


def sizes(draft: Draft, inputs: RuleInputs) -> None:
    if inputs.max_request_size is not None:
        draft.set("max_request_size", str(inputs.max_request_size), "--max-request-size")
    max_request_size(draft.properties)  # raises here, before anything is started


def has_model_api(properties: Mapping[str, str]) -> bool:
    return Draft(dict(properties)).is_true("enable_model_api")


def max_request_size(properties: Mapping[str, str]) -> int:
    """Return the largest body of a client's request, in bytes; raises ConfigurationError."""
    return whole(properties, "max_request_size", "config.properties") or MAX_REQUEST
