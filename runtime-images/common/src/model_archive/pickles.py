"""What `torch.save` pickled, by the operations of the pickle, without unpickling anything. Pure."""

from __future__ import annotations

import pickletools
from collections.abc import Iterator

_OF_MODULES = {"_parameters", "_modules"}  # attributes of each torch.nn.Module


def classes_in(pickled: bytes) -> set[str]:
    """Return the classes and functions that unpickling would import; raise ValueError for what is not a pickle."""
    return {text for name, text in _operations(pickled) if name == "GLOBAL"}


def saved_module(pickled: bytes) -> str | None:
    """Return the class of a network that was saved whole; None for anything else, such as its state dict."""
    try:
        _, (name, text), *_ = seen = list(_operations(pickled))  # after the protocol; a dictionary begins otherwise
    except ValueError:
        return None
    return text if name == "GLOBAL" and {text for _, text in seen} >= _OF_MODULES else None


def _operations(pickled: bytes) -> Iterator[tuple[str, str]]:
    """torch.save writes protocol 2, in which GLOBAL names a class whole."""
    for code, argument, _ in pickletools.genops(pickled):
        yield code.name, str(argument).replace(" ", ".") if code.name == "GLOBAL" else str(argument)
