"""Why requirements cannot be installed and what to do, of what uv says of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Container

from torchserve_compat.server.errors import BESIDE

_SHOWN = 800
_HEAD = "No solution found when resolving dependencies cause: "
_NEED = r"(?:you require|(?:all versions of )?(?P<who>\S+) depends? on) (?P<need>(?:one of: )?(?P<of>[\w.-]+).*?)"
_OF_THE_IMAGE = re.compile(rf"Because {_NEED} and (?P=of)==(?P<version>\S+), we can conclude")
_LACKING = re.compile(
    r"Because (?:(?P<gone>\S+) was not found in .+?|there (?:is|are) no versions? of (?P<none>\S+)|"
    r"only the following versions of \S+ are available: (?P<these>.+?)|only (?P<only>.+?) (?:is|are) available)"
    rf" and {_NEED}, we can conclude"
)


def reason_of(failure: str, fixed: Container[str]) -> str:
    """Return why and what to do, in a line; of the packages that are `fixed`, workers have the image's version."""
    said = failure.removeprefix(_HEAD)[:_SHOWN]
    if (found := _OF_THE_IMAGE.match(said)) and found["of"] in fixed:
        return (
            f"{found['who'] or 'it'} requires {found['need']}, but {found['of']} {found['version']} is installed "
            f"{BESIDE}, for all models. Allow that version, or install another there."
        )
    if found := _LACKING.match(said):
        gone, only = found["gone"], found["only"] or found["these"]
        if re.split(r"[^\w.-]", gone or only or found["none"])[0] == found["of"]:  # else it is one reason of several
            has = f"only {only}" if only else f"no {gone or 'such version'}"
            cure = "Correct its name, name an index that has it," if gone else "Ask for a version that it has,"
            return (
                f"{found['who'] or 'it'} requires {found['need']}, but the package index has {has}. {cure} "
                f"or install the package {BESIDE}."
            )
    return f"{said} Correct it, or install the packages {BESIDE}."
