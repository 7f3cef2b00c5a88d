"""What becomes of tokens while a long download goes on, and of services that turn out to be other ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from storage_initializer.backends import google
from storage_initializer.backends.client import Client
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import AccessDeniedError
from storage_initializer.plan import RequestPolicy
from tests.support.object_stores import identities
from tests.support.object_stores.proxy import Action, Answer, Request, proxy
from tests.support.object_stores.versitygw import Keys

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client() -> Client:
    return Client(Trust(), RequestPolicy(connect_s=5, read_s=5, attempts=1), proxies_of({}))


@dataclass
class Node:
    """One whose metadata server has this token now, for an hour."""

    token: str = ""

    def __call__(self, request: Request) -> Action:
        issued = {"access_token": self.token, "expires_in": 3600}
        return Answer(200, json.dumps(issued).encode(), {"Metadata-Flavor": "Google"}) if self.token else Answer(404)


def tokens_of(url: str, client: Client, time: list[datetime]) -> google.TokenProvider:
    server = google.metadata_server(url.removeprefix("http://"), sure=False)
    return google.TokenProvider(server, client, lambda: time[-1])


def test_a_token_is_kept_until_shortly_before_it_expires(client: Client) -> None:
    node, time = Node("first"), [NOW]
    with proxy(None, node) as server:
        tokens = tokens_of(server.url, client, time)
        found = [tokens()]
        node.token = "second"
        found.append(tokens())
        time.append(NOW + timedelta(minutes=59))
        found.append(tokens())

    assert [each["token"] for each in found] == ["first", "first", "second"]


def test_a_node_that_gave_tokens_and_fails_then_is_no_reason_to_be_anonymous(client: Client) -> None:
    node, time = Node("first"), [NOW]
    with proxy(None, node) as server:
        tokens = tokens_of(server.url, client, time)
        assert tokens()["token"] == "first"
        node.token = ""
        time.append(NOW + timedelta(hours=2))
        with pytest.raises(AccessDeniedError) as raised:
            tokens()

    assert tokens.failure is raised.value
    assert str(raised.value).startswith("no token for the service account of the metadata server ")


def test_another_clouds_node_has_no_token_for_google(client: Client) -> None:
    with proxy(None, identities.instance_metadata("workers", Keys("ASIA", "secret"))) as other:
        tokens = tokens_of(other.url, client, [NOW])

        assert (tokens.current(), str(tokens)) == (None, "anonymous")
