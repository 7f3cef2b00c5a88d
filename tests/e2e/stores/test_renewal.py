"""What becomes of keys and tokens while a long download goes on, and of services that turn out to be other ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from storage_initializer.backends import aws, google, sigv4
from storage_initializer.backends.client import Client
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import AccessDeniedError
from storage_initializer.plan import RequestPolicy
from tests.support.object_stores import identities
from tests.support.object_stores.proxy import Action, Answer, Request, proxy
from tests.support.object_stores.versitygw import Keys

EXPIRY = datetime(2099, 1, 1, tzinfo=UTC)  # of what the stand-ins hand out
KEYS = [Keys("ASIA1", "first"), Keys("ASIA2", "second")]


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client(Trust(), RequestPolicy(connect_s=5, read_s=5, attempts=1), proxies_of({}))
    yield client
    client.close()


@dataclass
class Node:
    """One whose role has these keys now; none at first."""

    keys: Keys | None = None

    def __call__(self, request: Request) -> Action | None:
        return identities.instance_metadata("workers", self.keys)(request) if self.keys else Answer(404)


def as_sent(keys: Keys) -> sigv4.Keys:
    return sigv4.Keys(keys.access, keys.secret, identities.SESSION)


def test_keys_are_kept_until_shortly_before_they_expire(client: Client) -> None:
    node, time = Node(KEYS[0]), datetime(2026, 1, 1, tzinfo=UTC)
    with proxy(None, node) as server:
        ring = aws.KeyProvider(aws.NodeRole(server.url), client, lambda: time)
        found = [ring.keys()]
        node.keys = KEYS[1]
        found.append(ring.keys())
        time = EXPIRY - timedelta(minutes=1)
        found.append(ring.keys())

    assert found == [as_sent(KEYS[0]), as_sent(KEYS[0]), as_sent(KEYS[1])]


def test_a_node_that_gave_keys_and_fails_then_is_no_reason_to_be_anonymous(client: Client) -> None:
    node = Node(KEYS[0])
    with proxy(None, node) as server:
        ring = aws.KeyProvider(aws.NodeRole(server.url), client, lambda: EXPIRY)
        assert ring.keys() == as_sent(KEYS[0])
        node.keys = None
        with pytest.raises(AccessDeniedError) as raised:
            ring.keys()

    assert str(raised.value) == (
        f"{server.url}/latest/api/token responds with 404; give the node a role, or AWS_ACCESS_KEY_ID"
    )


def test_another_clouds_node_has_no_token_for_google(client: Client) -> None:
    with proxy(None, identities.instance_metadata("workers", KEYS[0])) as other:
        server = google.MetadataServer(other.url.removeprefix("http://"), sure=False)
        ring = google.TokenProvider(server, client, lambda: EXPIRY)

        assert (ring.headers(), str(ring)) == ({}, "anonymous")
