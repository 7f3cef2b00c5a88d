"""YAML for people: a text of several lines is a block of them."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

# The one of libyaml is three times as fast.
Dumper: Final[Any] = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
_OTHER_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")  # which a block would not keep


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text and not _OTHER_BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, _text)
