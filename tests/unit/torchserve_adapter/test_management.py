"""What becomes of a registration on its way to TorchServe, which must not wait for batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from data_plane.batching.limits import BatchLimits
from data_plane.errors import InvalidRequest, UnknownModel, UpstreamError
from data_plane.messages import Request, Response
from tests.support.model_folder import manifest, write_mar
from torchserve_adapter import management
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.management import ManagementEndpoints, StoreRepository
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from torchserve_compat.store.settings import BatchOptions

REQUIREMENTS = BatchRequirements(BatchOptions(), {}, {})
ALONE = BatchLimits(merges_rows=False)  # of an archive for which nobody asked for a batch size


class FakeClient:
    """Keeps what it is sent, and gives one answer."""

    def __init__(self, answer: Response) -> None:
        self.answer = answer
        self.sent: list[tuple[str, str, dict[str, str]]] = []

    async def manage(self, method: str, path_and_query: str) -> Response:
        url = urlsplit(path_and_query)
        self.sent.append((method, url.path, dict(parse_qsl(url.query))))
        return self.answer


class FakeWatch:
    looks = 0

    def has_given_up(self, name: str) -> bool:
        return False

    async def check(self) -> None:
        self.looks += 1


class FakeServed:
    """Keeps which archives it was told to expect, and with which limits."""

    def __init__(self) -> None:
        self.expected: dict[str, BatchLimits] = {}

    def expect(self, archive: str, limits: BatchLimits) -> None:
        self.expected[archive] = limits


class Managed:
    """The API over a store with one archive that asks for batches of 6, and one that says nothing of them."""

    def __init__(self, store: Path, answer: Response) -> None:
        write_mar(
            store / "six.mar",
            manifest(modelName="six", configFile="c.yaml"),
            {"handler.py": b"", "c.yaml": b"batchSize: 6"},
        )
        write_mar(store / "x.mar", manifest(modelName="x"), {"handler.py": b""})
        self.client, self.watch, self.served = FakeClient(answer), FakeWatch(), FakeServed()
        client, watch = cast(TorchServeClient, self.client), cast(ModelWatch, self.watch)
        served = cast(ServedVersions, self.served)
        self.repository = StoreRepository(
            client, watch, served=served, requirements=REQUIREMENTS, store=store, workers=2
        )
        self.endpoints = ManagementEndpoints(self.repository)

    async def register(self, query: str = "", document: Any = None) -> Response:
        body = b"" if document is None else orjson.dumps(document)
        headers = () if document is None else ((b"content-type", b"application/json"),)
        return await self.endpoints.register(Request("POST", "/models", {}, headers, body, "id", query.encode()))


@pytest.fixture
def managed(tmp_path: Path) -> Managed:
    return Managed(tmp_path, Response(b'{"status": "registered"}'))


@pytest.mark.parametrize(
    ("query", "document", "sent", "limits"),
    [
        ("url=x.mar&batch_size=8&max_batch_delay=50", None, {"url": "x.mar", "batch_size": "8"}, BatchLimits(8)),
        ("url=x.mar", None, {"url": "x.mar", "batch_size": "1"}, ALONE),
        ("url=six.mar", None, {"url": "six.mar", "batch_size": "6"}, BatchLimits(6)),
        (
            "",
            {"url": "x.mar", "batch_size": 1, "synchronous": True},
            {"url": "x.mar", "batch_size": "1", "synchronous": "true"},
            BatchLimits(1),
        ),
        ("url=http%3A%2F%2Fhost%2Fa%20b.mar", None, {"url": "http://host/a b.mar", "batch_size": "1"}, ALONE),
    ],
)
async def test_torchserve_is_told_the_batch_size_and_not_to_wait(
    managed: Managed, query: str, document: Any, sent: dict[str, str], limits: BatchLimits
) -> None:
    answer = await managed.register(query, document)

    assert managed.client.sent == [("POST", "/models", {**sent, "max_batch_delay": "0"})]
    assert managed.served.expected == {sent["url"]: limits}
    assert (answer, managed.watch.looks) == (managed.client.answer, 1)


async def test_a_body_that_is_no_registration_is_refused(managed: Managed) -> None:
    with pytest.raises(InvalidRequest, match="is not a JSON object like"):
        await managed.register(document=["six.mar"])


async def test_all_else_passes_as_it_is(managed: Managed) -> None:
    request = Request("PUT", "/models/a b", {}, (), b"", "id", b"min_worker=2&max_worker=3")

    await managed.endpoints.forward(request)

    assert managed.client.sent == [("PUT", "/models/a%20b", {"min_worker": "2", "max_worker": "3"})]
    assert managed.watch.looks == 1


async def test_the_repository_loads_an_archive_by_its_models_name(managed: Managed) -> None:
    await managed.repository.load("six")

    assert managed.client.sent == [
        ("POST", "/models", {"url": "six.mar", "model_name": "six", "initial_workers": "2", "synchronous": "true",
                             "batch_size": "6", "max_batch_delay": "0"})
    ]  # fmt: skip
    assert managed.served.expected == {"six.mar": BatchLimits(6)}
    with pytest.raises(UnknownModel, match="Models served here: six"):
        await managed.repository.load("seven")


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        (b"sequenceBatching: true", "odd.mar asks for sequenceBatching and has no sequenceMaxIdleMSec"),
        (b"sequenceBatching: true\ncontinuousBatching: true", "continuousBatching and sequenceBatching together"),
    ],
)
async def test_an_archive_that_would_end_the_adapter_at_its_start_is_refused(
    managed: Managed, tmp_path: Path, yaml: bytes, words: str
) -> None:
    odd = manifest(modelName="odd", configFile="c.yaml")
    write_mar(tmp_path / "odd.mar", odd, {"handler.py": b"", "c.yaml": yaml})

    for loading in (
        managed.register("url=odd.mar"),
        managed.register("url=odd.mar&batch_size=4"),
        managed.repository.load("odd"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            await loading
    assert managed.client.sent == []


async def test_what_torchserve_refuses_is_the_repositorys_error(tmp_path: Path) -> None:
    refusing = Managed(tmp_path, Response(b'{"code": 507, "message": "no memory"}', 507))

    with pytest.raises(UpstreamError, match="torchserve: no memory") as raised:
        await refusing.repository.load("six")

    assert raised.value.status == 507


async def test_archives_are_read_while_others_are_served(managed: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large .tar.gz takes minutes."""
    on_the_loop = threading.get_ident()
    readers: list[int] = []

    def noting_where(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def noted(path: Path) -> Any:
            readers.append(threading.get_ident())
            return read(path)

        return noted

    for name in ("read_archive", "read_settings", "read_store"):
        monkeypatch.setattr(management, name, noting_where(getattr(management, name)))

    await managed.register("url=x.mar")
    await managed.repository.load("x")

    assert [reader == on_the_loop for reader in readers] == [False] * 4
