"""Stores that send what a test says, and what the initializer makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storage_initializer.transfer import STAGING
from tests.support.model_folder import read_tree
from tests.support.object_stores.proxy import Answer, Request

MIB = 1 << 20
_TIME = "2026-01-01T00:00:00Z"
# An attempt that is broken off must not be made again and again.
ONCE = {"S3_MAX_ATTEMPTS": "1", "S3_READ_TIMEOUT": "1", "S3_CONNECT_TIMEOUT": "1"}


def visible(folder: Path) -> dict[str, bytes]:
    """What a server would see: not what is kept for the next run."""
    return {name: content for name, content in read_tree(folder).items() if not name.startswith(STAGING)}


def s3_environment(url: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": url, "awsAnonymousCredential": "true", **ONCE}


def listing(*objects: tuple[str, str], more: str = "") -> Answer:
    """Of keys and sizes; ``more`` is where the next page begins."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>e</ETag><LastModified>{_TIME}</LastModified></Contents>"
        for key, size in objects
    )
    token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    return Answer(200, f"<ListBucketResult>{entries}{token}</ListBucketResult>".encode())


def store(listed: Answer, content: bytes = b"x") -> Callable[[Request], Answer]:
    """What is listed, each with this content; what the URI names is a folder, and no object."""

    def decide(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(404)
        return listed if "list-type" in request.target else Answer(200, content)

    return decide
