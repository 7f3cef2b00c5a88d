"""Which backend serves which scheme. A new kind of source is one module and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from storage_initializer.backends import Source
from storage_initializer.errors import UnsupportedSchemeError
from storage_initializer.plan import Plan, Transfer

BACKENDS = {
    "file": "storage_initializer.backends.local",
    "pvc": "storage_initializer.backends.pvc",
    "s3": "storage_initializer.backends.s3",
    "gs": "storage_initializer.backends.gs",
    "http": "storage_initializer.backends.http",
    "https": "storage_initializer.backends.http",
}
_SUPPORTED = "use s3://BUCKET/PATH, gs://BUCKET/PATH, https://HOST/FILE, pvc://CLAIM/PATH, file:///PATH or a path"
_INSTEAD = {
    "hf": "download the model with the hf command, put it in a bucket or on a claim and name that",
    "oci": "mount the image as a volume, or copy its files to a bucket or a claim and name that",
    "hdfs": "copy the model to a bucket or a claim and name that",
    "webhdfs": "copy the model to a bucket or a claim and name that",
}


def open_source(transfer: Transfer, plan: Plan) -> Source:
    scheme = transfer.source.scheme
    if scheme in _INSTEAD:
        raise UnsupportedSchemeError(f"{scheme}:// is not supported; {_INSTEAD[scheme]}")
    if scheme not in BACKENDS:
        raise UnsupportedSchemeError(f"{scheme}:// is not a known scheme; {_SUPPORTED}")
    backend = import_module(BACKENDS[scheme])
    return cast(Source, backend.open_source(transfer, plan))
