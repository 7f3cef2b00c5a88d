"""The environment to an endpoint of Google's and who asks it."""

from __future__ import annotations

import pytest

from storage_initializer.backends.google import ANONYMOUS, GoogleIdentity, metadata_server
from storage_initializer.backends.gs_access import GsAccess, gs_access
from storage_initializer.backends.trust import Trust


def test_without_anything_the_node_is_asked_who_the_pod_is() -> None:
    assert gs_access({}) == GsAccess(
        endpoint="https://storage.googleapis.com",
        identity=metadata_server("169.254.169.254", sure=False),
        trust=Trust(),
    )


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [("http://fake:4443/", "http://fake:4443"), ("fake:4443", "http://fake:4443"), ("https://fake", "https://fake")],
)
def test_an_emulator_is_asked_anonymously(host: str, endpoint: str) -> None:
    assert gs_access({"STORAGE_EMULATOR_HOST": host}) == GsAccess(endpoint, ANONYMOUS, Trust())


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        (
            {"GOOGLE_APPLICATION_CREDENTIALS": "/var/secrets/key.json"},
            GoogleIdentity("the account of /var/secrets/key.json", path="/var/secrets/key.json"),
        ),
        ({"GCE_METADATA_HOST": "metadata:80"}, metadata_server("metadata:80", sure=True)),
    ],
)
def test_who_asks_an_emulator_that_wants_to_know(environment: dict[str, str], identity: object) -> None:
    assert gs_access({**environment, "STORAGE_EMULATOR_HOST": "fake"}).identity == identity
