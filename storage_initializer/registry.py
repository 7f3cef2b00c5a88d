"""Which backend serves which scheme. A new kind of source is one module and one line here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from storage_initializer.backends import Source
from storage_initializer.errors import UnsupportedSchemeError
from storage_initializer.plan import Transfer

_BACKENDS = {
    "file": "storage_initializer.backends.local",
    "pvc": "storage_initializer.backends.pvc",
}
_NOT_YET = {"s3", "gs", "http", "https", "hf", "oci", "hdfs", "webhdfs"}


def open_source(transfer: Transfer, pvc_root: Path) -> Source:
    scheme = transfer.source.scheme
    if scheme not in _BACKENDS:
        what = "is not supported by this version" if scheme in _NOT_YET else "is not a known scheme"
        raise UnsupportedSchemeError(f"{scheme}:// {what}; use pvc://CLAIM/PATH, file:///PATH or a path")
    backend = import_module(_BACKENDS[scheme])
    return cast(Source, backend.open_source(transfer, pvc_root))
