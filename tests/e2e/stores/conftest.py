"""The initializer and real stores: one of each kind for the session, a bucket of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.local.conftest import sandbox
from tests.integration.storage.conftest import initialize, open_path
from tests.support.object_stores import fake_gcs, nginx, tls, versitygw

__all__ = ["initialize", "open_path", "sandbox"]  # fixtures

_numbers = itertools.count(1)

Files = dict[str, bytes]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="session")
def certificate(home: Path) -> tls.Certificate:
    return tls.issue(home)


@pytest.fixture(scope="session")
def s3(home: Path) -> Iterator[versitygw.S3Server]:
    with versitygw.running(home / "s3") as server:
        yield server


@pytest.fixture(scope="session")
def gcs(home: Path) -> Iterator[fake_gcs.GcsServer]:
    with fake_gcs.running(home / "gcs") as server:
        yield server


@pytest.fixture(scope="session")
def web(home: Path, certificate: tls.Certificate) -> Iterator[nginx.HttpServer]:
    with nginx.running(home / "web", certificate) as server:
        yield server


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@dataclass(frozen=True)
class Store:
    """A bucket store of either kind, as a test that is about neither sees it."""

    scheme: str
    server: versitygw.S3Server | fake_gcs.GcsServer

    def fill(self, files: Files) -> str:
        """The URI of a new bucket of these files."""
        name = f"bucket-{next(_numbers)}"
        self.server.create_bucket(name)
        for key, content in files.items():
            self.server.put(name, key, content)
        return f"{self.scheme}://{name}"

    def environment(self, url: str | None = None) -> dict[str, str]:
        """Of the bucket's owner; ``url`` is a proxy's, where there is one in between."""
        return environment_of(self.scheme, url or self.server.url)


def environment_of(scheme: str, url: str, keys: versitygw.Keys = versitygw.OWNER) -> dict[str, str]:
    if scheme == "gs":
        return {"STORAGE_EMULATOR_HOST": url}
    return {
        "AWS_ACCESS_KEY_ID": keys.access,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
        "AWS_DEFAULT_REGION": versitygw.REGION,
        "AWS_ENDPOINT_URL": url,
        "S3_ENDPOINT": url.partition("://")[2],
        "S3_USE_HTTPS": str(int(url.startswith("https"))),
    }


@pytest.fixture
def bucket(s3: versitygw.S3Server) -> Store:
    """S3, where a test is about that."""
    return Store("s3", s3)


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind in turn."""
    return Store(request.param, request.getfixturevalue({"s3": "s3", "gs": "gcs"}[request.param]))
