"""A request in TorchServe's own inference API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Fields = Sequence[tuple[str, bytes]]


class RawRequest(msgspec.Struct, frozen=True):
    """A body of any type that only the model's handler interprets.

    `name` is the name of the body among the request's parts, or empty if it has none; `fields` are the other parts.
    """

    body: bytes
    content_type: str = ""
    path: str = ""  # below /predictions/<model>/<version>
    name: str = "body"
    fields: Fields = ()
    explain: bool = False
