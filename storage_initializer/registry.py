"""Opens the source of a transfer, by the scheme of its URI."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

from storage_initializer.errors import UnsupportedSchemeError, UsageError
from storage_initializer.plan import Plan, Transfer
from storage_initializer.schemes import INSTEAD, SCHEMES, backend_of, foreign_service, forms, problem_of
from storage_initializer.sources import Source


def open_source(transfer: Transfer, plan: Plan) -> Source:
    """Import the backend, on first use, and open the source; raise UnsupportedSchemeError or UsageError."""
    name = transfer.source.scheme
    if name not in SCHEMES:
        if name in INSTEAD:
            raise UnsupportedSchemeError(f"{name}:// is not supported; {INSTEAD[name]}")
        near = get_close_matches(name, SCHEMES, n=1, cutoff=0.5 if len(name) == 2 else 0.6)
        meant = "".join(f" (did you mean {one}://?)" for one in near)
        raise UnsupportedSchemeError(f"{name}:// is not a known scheme{meant}; use {forms()} or a path")
    if service := foreign_service(transfer.source.text):
        raise UnsupportedSchemeError(
            f"{transfer.source.shown} is {service}, which is not supported; let a ClusterStorageContainer download it, "
            "or copy the model to a bucket or a claim and name that"
        )
    if problem := problem_of(transfer.source):
        raise UsageError(f"it {problem}")
    backend = import_module(f"storage_initializer.backends.{backend_of(transfer.source.text, name)}")
    return cast(Source, backend.open_source(transfer, plan))
