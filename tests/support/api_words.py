"""The words of an API server as ``isvc validate`` says them."""

from __future__ import annotations

import re

from isvc_operator.api.core_shapes import QUANTITY_SCHEMA

# What the API server says, and what isvc says instead.
_OURS = {
    r'Invalid value: "(\w+)": \S+ in body must be of type (\S+): "\w+"': r"must be of type \2, not \1",
    r'Invalid value: "object": ': "",
    r"\S+ in body should": "should",
    f"should match '{re.escape(QUANTITY_SCHEMA['pattern'])}'": "not a quantity; write one such as 500m or 2Gi",
}


def in_our_words(line: str) -> str:
    """Return what an API server says of one field as it is said here."""
    for theirs, ours in _OURS.items():
        line = re.sub(theirs, ours, line)
    return line
