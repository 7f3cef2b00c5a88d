"""The storage-initializer against servers, names, shared folders and disks that mean harm, or are broken."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from storage_initializer import limits
from storage_initializer.cache import NodeCache
from storage_initializer.transfer import STAGING
from tests.integration.storage.conftest import Initialize, initializer, ordinary_user
from tests.support.cache_pods import FILES, LISTING, write_files
from tests.support.initializer_forks import forks
from tests.support.model_folder import packed_zip, read_tree, write_volume
from tests.support.object_stores.proxy import Answer, Endless, Raw, Request, proxy
from tests.support.waiting import eventually

MIB = 1 << 20
FORGED = "done: 1 file\nforged\r\x1b[2Jx\x85\u2028\u202e"
# An attempt that is broken off must not be made again and again.
ONCE = {"S3_MAX_ATTEMPTS": "1", "S3_READ_TIMEOUT": "1", "S3_CONNECT_TIMEOUT": "1"}


@pytest.fixture
def initialize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Initialize:
    return initializer(tmp_path, capsys)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def visible(folder: Path) -> dict[str, bytes]:
    """What a server would see: not what is kept for the next run."""
    return {name: content for name, content in read_tree(folder).items() if not name.startswith(STAGING)}


def s3_environment(url: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": url, "awsAnonymousCredential": "true", **ONCE}


def listing(*objects: tuple[str, str], more: str = "") -> Answer:
    """Of keys and sizes; ``more`` is where the next page begins."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>e</ETag></Contents>" for key, size in objects
    )
    token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    return Answer(200, f"<ListBucketResult>{entries}{token}</ListBucketResult>".encode())


def store(listed: Answer, content: bytes = b"x") -> Callable[[Request], Answer]:
    return lambda request: listed if "list-type" in request.target else Answer(200, content)


# --- forged text -------------------------------------------------------------------------------------


def assert_nothing_is_forged(lines: list[str]) -> None:
    assert [line for line in lines if not line.isprintable() or line.startswith(("forged", "x"))] == []


def test_the_name_of_an_object_forges_no_line(initialize: Initialize, models: Path) -> None:
    key = escape("m/copied x\nforged \u202e.bin").replace("\n", "&#10;")
    with proxy(None, store(listing((key, "1")))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)
    assert r"copied copied x\nforged \u202e.bin (1 B)" in outcome.log


@pytest.mark.parametrize(
    "answer",
    [
        Raw(b"HTTP/1.1 500 it \x1b[2J\x85 broke\r\nContent-Length: 0\r\n\r\n"),
        Raw(b"HTTP/1.1 302 Found\r\nLocation: ftp://\x1b[2J\x85/\r\nContent-Length: 0\r\n\r\n"),
        Raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: \x1b[2Jx\r\nContent-Length: 1\r\n\r\nx"),
        Raw(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/\x1b[2J\x85\r\nContent-Length: 1\r\n\r\nx"),
        Raw(b"\x1b[2J\x85 not HTTP\r\n\r\n"),
    ],
    ids=["status", "redirect", "coding", "range", "no answer"],
)
def test_what_a_server_says_forges_no_reason(initialize: Initialize, models: Path, answer: Raw) -> None:
    with proxy(None, lambda _: answer) as server:
        outcome = initialize(f"{server.url}/bert%0aforged%1b.bin", models, **ONCE)

    assert outcome.exit_code in (15, 17)
    assert_nothing_is_forged([*outcome.log, outcome.reason])


def test_the_name_that_a_server_gives_a_file_forges_no_line(initialize: Initialize, models: Path) -> None:
    named = {"Content-Disposition": "attachment; filename*=UTF-8''bert%0Aforged%1B%5B2J.bin"}
    with proxy(None, lambda _: Answer(200, b"x", named)) as server:
        outcome = initialize(f"{server.url}/x", models, **ONCE)

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)
    assert visible(models) == {"bert\nforged\x1b[2J.bin": b"x"}


def test_the_words_of_a_store_forge_no_reason_and_are_cut(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    words = f"<Error><Code>AccessDenied</Code><Message>&#10;forged {'x' * MIB}</Message></Error>"
    with proxy(None, lambda _: Answer(403, words.encode())) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 7
    assert_nothing_is_forged([*outcome.log, outcome.reason])
    assert len(outcome.reason) <= limits.MAX_REASON


def test_names_in_a_claim_forge_no_line(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / FORGED.replace("/", "")).write_bytes(b"x")

    outcome = initialize(tmp_path / "claim", models)

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)


def test_a_traceback_forges_no_line(initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError(FORGED)

    monkeypatch.setattr("storage_initializer.cli.open_source", explode)

    outcome = initialize("s3://models/m", models)

    assert outcome.exit_code == 1
    assert_nothing_is_forged([*outcome.log, outcome.reason])


# --- sizes that lie ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["-1", "1e9", "9" * 5000, "x", "²", "1 2"])
def test_a_size_that_is_none_is_refused(initialize: Initialize, models: Path, size: str) -> None:
    with proxy(None, store(listing(("m/x", size)))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, visible(models)) == (17, {})
    assert outcome.reason.startswith("s3://models/m: the server tells the size ")


def test_more_than_the_disk_holds_is_refused_before_it_is_asked_for(initialize: Initialize, models: Path) -> None:
    with proxy(None, store(listing(("m/x", str(10**17))))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (10, 2)


def ranged(start: int, stop: int, total: int) -> bytes:
    return (
        f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{stop - 1}/{total}\r\n"
        f'ETag: "1"\r\nContent-Length: {stop - start}\r\n\r\n'
    ).encode()


def by_request(first: bytes, others: Raw | Endless) -> Callable[[Request], Raw | Endless]:
    """The first is for the file's length."""
    answers = iter([Raw(first)])
    return lambda _: next(answers, others)


@pytest.mark.parametrize(
    ("answer", "exit_code", "reason"),
    [
        (Raw(ranged(1, 9, 9) + b"12345678"), 17, "sends bytes 1-8/9 where the bytes from 0 were asked for"),
        (Raw(ranged(0, 9, 9) + b"1234"), 17, "broke off 5 bytes before the end"),
        (Raw(b'HTTP/1.1 206 OK\r\nETag: "1"\r\n\r\n123456789'), 17, "sends a part where the bytes from 0"),
    ],
    ids=["another part", "less than it says", "it does not say which part"],
)
def test_a_part_that_is_not_what_was_asked_for_is_refused(
    initialize: Initialize, models: Path, answer: Raw, exit_code: int, reason: str
) -> None:
    with proxy(None, by_request(ranged(0, 1, 9) + b"1", answer)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (exit_code, {})
    assert reason in outcome.reason


def test_of_an_answer_without_an_end_only_what_was_asked_for_is_taken(initialize: Initialize, models: Path) -> None:
    head = b'HTTP/1.1 206 OK\r\nContent-Range: bytes 0-8/9\r\nETag: "1"\r\n\r\n'
    with proxy(None, by_request(ranged(0, 1, 9) + b"1", Endless(head, bytes(MIB)))) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (0, {"x.bin": bytes(9)})


def test_a_file_without_a_length_and_without_an_end_is_given_up(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_initializer.download.MAX_UNSIZED", 8 * MIB)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with proxy(None, lambda _: Endless(chunked, b"100000\r\n" + bytes(MIB) + b"\r\n")) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, outcome.reason, visible(models)) == (
        17,
        f"{server.url}/x.bin: x.bin has more than 8.0 MiB, and its server does not tell how long it is; "
        "serve it with a Content-Length",
        {},
    )


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128])
def test_a_name_that_no_disk_takes_is_refused_before_it_is_asked_for(
    initialize: Initialize, models: Path, name: str
) -> None:
    with proxy(None, store(listing((f"m/{name}/x", "1")))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (8, 2)
    assert outcome.reason.endswith("… has a name of more than 255 bytes; rename it")


# --- without an end ----------------------------------------------------------------------------------


def test_a_listing_without_an_end_is_given_up(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_initializer.backends.s3.MAX_PAGES", 5)
    with proxy(None, store(listing(("m/x", "1"), more="again"))) as server:
        outcome = initialize("s3://models/m/", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (17, 5)
    assert "lists without an end; see its log" in outcome.reason


def test_a_page_of_a_listing_without_an_end_is_not_held_in_memory(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_initializer.backends.client.MAX_ANSWER", MIB)
    with proxy(None, lambda _: Endless(b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>", b"<Contents/>" * 1000)) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 17
    assert "does not answer like S3" in outcome.reason


def test_a_server_that_says_nothing_is_not_waited_for(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Endless(b"", b"", every_s=0.1)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert outcome.exit_code == 15
    assert "does not answer in time" in outcome.reason


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n",
    ],
    ids=["before the status", "in the headers", "in the body", "in a chunk"],
)
def test_a_server_that_trickles_counts_as_one_that_does_not_answer(
    initialize: Initialize, models: Path, start: bytes
) -> None:
    """A byte comes well before each read would time out."""
    with proxy(None, lambda _: Endless(start, b"x", every_s=0.25)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (15, {})
    assert "does not answer in time" in outcome.reason


def test_a_proxy_that_trickles_counts_as_one_that_does_not_answer(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Endless(b"HTTP/1.1 200 OK\r\n", b"x", every_s=0.25)) as between:
        outcome = initialize("https://models.invalid/x.bin", models, HTTPS_PROXY=between.url, **ONCE)

    assert outcome.exit_code == 15
    assert "does not lead to models.invalid" in outcome.reason


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * MIB),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n" * 1000),
    ],
    ids=["headers", "a header", "interim answers", "trailers"],
)
def test_an_answer_whose_head_has_no_end_is_given_up(
    initialize: Initialize, models: Path, start: bytes, more: bytes
) -> None:
    with proxy(None, lambda _: Endless(start, more)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert outcome.exit_code in (15, 17)
    assert visible(models) == {}


# --- answers that make no sense ----------------------------------------------------------------------

DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"7", DEEP, b'{"items": 7}', b'{"items": [7]}', b'{"items": [{}]}', b'{"items": {"name": "x"}}',
     b'{"items": [{"name": "m/x", "size": -1}]}'],
)  # fmt: skip
def test_a_listing_that_is_none_is_refused(initialize: Initialize, models: Path, body: bytes) -> None:
    with proxy(None, lambda _: Answer(200, body)) as server:
        outcome = initialize("gs://models/m", models, STORAGE_EMULATOR_HOST=server.url, **ONCE)

    assert (outcome.exit_code, read_tree(models)) == (17, {})


def test_a_refusal_that_is_none_is_told_as_it_is(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Answer(403, DEEP)) as server:
        outcome = initialize("gs://models/m", models, STORAGE_EMULATOR_HOST=server.url, **ONCE)

    assert outcome.exit_code == 7
    assert len(outcome.reason) < 500


@pytest.mark.parametrize(
    "body",
    [b"", b"7", DEEP, b"{}", b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "soon"}',
     b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2099-01-01T00:00:00"}'],
)  # fmt: skip
def test_keys_that_are_none_are_refused(initialize: Initialize, models: Path, body: bytes) -> None:
    with proxy(None, lambda _: Answer(200, body)) as agent:
        environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.url, **ONCE}
        outcome = initialize("s3://models/m", models, AWS_ENDPOINT_URL=agent.url, **environment)

    assert outcome.exit_code == 17
    assert "the answer of the credentials' agent makes no sense" in outcome.reason


@pytest.mark.parametrize("body", [b"7", DEEP, b"{}", b'{"access_token": 7, "expires_in": 9}',
                                  b'{"access_token": "a", "expires_in": "9"}'])  # fmt: skip
def test_a_token_that_is_none_is_refused(initialize: Initialize, models: Path, body: bytes) -> None:
    with proxy(None, lambda _: Answer(200, body)) as metadata:
        host = metadata.url.removeprefix("http://")
        outcome = initialize("gs://models/m", models, GCE_METADATA_HOST=host, **ONCE)

    assert outcome.exit_code == 7
    assert "no token for the service account of the metadata server" in outcome.reason


# --- shared folders ----------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder that nothing may be written to, or taken from."""
    folder = tmp_path / "victim"
    write_files(folder, {"precious": b"precious", "arriving/precious": b"precious"})
    before = read_tree(folder)
    yield folder
    assert read_tree(folder) == before


def test_a_link_in_the_place_of_the_staging_folder_is_not_followed(
    initialize: Initialize, models: Path, tmp_path: Path, victim: Path
) -> None:
    source = write_volume(tmp_path / "source")
    models.mkdir()
    (models / STAGING).symlink_to(victim)

    outcome = initialize(source, models)

    assert (outcome.exit_code, visible(models)) == (0, read_tree(source))
    assert not os.path.lexists(models / STAGING)


def test_a_staging_folder_that_others_can_write_to_is_made_anew(
    initialize: Initialize, models: Path, tmp_path: Path, victim: Path
) -> None:
    source = write_volume(tmp_path / "source")
    (models / STAGING).mkdir(parents=True)
    (models / STAGING).chmod(0o777)
    (models / STAGING / "arriving").symlink_to(victim)

    outcome = initialize(source, models)

    assert (outcome.exit_code, visible(models)) == (0, read_tree(source))


def test_what_a_killed_run_has_left_in_a_claim_is_not_brought_along(
    initialize: Initialize, models: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "source", {"w": b"x", f"{STAGING}/arriving/w": b"half", f"{STAGING}.md": b"notes"})

    outcome = initialize(tmp_path / "source", models)

    assert (outcome.exit_code, read_tree(models)) == (0, {"w": b"x", f"{STAGING}.md": b"notes"})


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that all can write to, as many volumes are."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def fill(work: Path) -> Path:
    return write_files(work / "new")


def test_in_a_shared_folder_the_cache_is_one_of_this_user_alone(shared: Path, tmp_path: Path) -> None:
    cache = NodeCache(shared, 100 * MIB, boot="1")

    assert cache.bring("s3://models/bert", LISTING, fill, tmp_path / "first")
    assert cache.bring("s3://models/bert", LISTING, no_fill, tmp_path / "second")

    (own,) = shared.iterdir()
    assert (own.name, own.stat().st_mode & 0o777) == (f"user-{os.geteuid()}", 0o700)
    assert (own / "locks").stat().st_mode & 0o777 == 0o700
    assert read_tree(tmp_path / "second") == FILES


def no_fill(work: Path) -> Path:
    raise AssertionError("it is there")


def test_a_folder_of_our_own_keeps_the_entries_itself(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "own", 100 * MIB, boot="1")

    assert cache.bring("s3://models/bert", LISTING, fill, tmp_path / "models")
    assert len(list((tmp_path / "own").glob("*/manifest.json"))) == 1


def test_a_link_in_the_place_of_the_caches_folder_is_not_followed(
    shared: Path, tmp_path: Path, victim: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / f"user-{os.geteuid()}").symlink_to(victim)

    assert not NodeCache(shared, 100 * MIB, boot="1").bring("s3://models/bert", LISTING, fill, tmp_path / "models")
    assert warnings(caplog) == [f"the node's cache {shared} is of no use (Not a directory); downloading without it"]


def test_a_folder_of_another_user_in_the_place_of_the_caches_is_not_used(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it has an entry of the very model."""
    theirs = NodeCache(tmp_path / "theirs", 100 * MIB, boot="1")
    assert theirs.bring("s3://models/bert", LISTING, fill, tmp_path / "first")
    name = f"user-{os.geteuid()}"
    theirs.root.rename(shared / name)
    for path in ((shared / name), *(shared / name).rglob("*")):
        os.chown(path, 2000, 2000)

    assert not NodeCache(shared, 100 * MIB, boot="1").bring("s3://models/bert", LISTING, fill, tmp_path / "models")
    assert warnings(caplog) == [
        f"the node's cache {shared} is of no use (the folder {name} in it is another user's); downloading without it"
    ]


def test_what_the_group_was_given_by_the_kubelet_is_taken_away_again(shared: Path, tmp_path: Path) -> None:
    cache = NodeCache(shared, 100 * MIB, boot="1")
    assert cache.bring("s3://models/bert", LISTING, fill, tmp_path / "first")
    own = shared / f"user-{os.geteuid()}"
    own.chmod(0o2770)

    assert cache.bring("s3://models/bert", LISTING, no_fill, tmp_path / "second")
    assert own.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_swapped_while_it_is_in_use_changes_nothing(
    shared: Path, tmp_path: Path, victim: Path
) -> None:
    own = shared / f"user-{os.geteuid()}"

    def swap(work: Path) -> Path:
        own.rename(shared / "away")
        own.symlink_to(victim)
        return fill(work)

    cache = NodeCache(shared, 100 * MIB, boot="1")

    assert cache.bring("s3://models/bert", LISTING, swap, tmp_path / "models")
    assert read_tree(tmp_path / "models") == FILES


def test_what_else_is_in_the_folder_is_not_removed_to_make_room(tmp_path: Path, victim: Path) -> None:
    shutil.copytree(victim, tmp_path / "cache/another program's")
    cache = NodeCache(tmp_path / "cache", sum(map(len, FILES.values())), boot="1")

    assert cache.bring("s3://models/bert", LISTING, fill, tmp_path / "1")
    assert cache.bring("s3://models/other", LISTING, fill, tmp_path / "2")
    assert read_tree(tmp_path / "cache/another program's") == read_tree(victim)


def test_a_lock_that_nobody_lets_go_of_is_waited_for_no_longer_than_the_patience(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = NodeCache(tmp_path / "cache", 100 * MIB, boot="1", patience_s=0.2)

    def fill_twice(work: Path) -> Path:
        """While this one is being filled, another pod asks."""
        assert not cache.bring("s3://models/bert", LISTING, no_fill, tmp_path / "second")
        return fill(work)

    assert cache.bring("s3://models/bert", LISTING, fill_twice, tmp_path / "first")
    assert warnings(caplog) == [
        f"the node's cache {cache.root} is of no use (another pod has been filling it for too long); "
        "downloading without it"
    ]


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is swapped for a link between the look at the path and the opening."""
    claim = tmp_path / "pvc/claim"
    write_files(claim, {"a/token": b"x"})
    write_files(tmp_path / "secret", {"token": b"s3cret"})
    realpath = os.path.realpath

    def swap(path: Path, *, strict: bool = False) -> str:
        found = realpath(path, strict=strict)
        if str(path).endswith("a/token") and not (claim / "a").is_symlink():
            (claim / "a").rename(tmp_path / "away")
            (claim / "a").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr("storage_initializer.backends.local.os.path.realpath", swap)

    outcome = initialize("pvc://claim", models, "--pvc-root", tmp_path / "pvc")

    assert (outcome.exit_code, visible(models)) == (8, {})
    assert outcome.reason.endswith("became another file while it was opened; start again")


def test_folders_without_an_end_are_refused(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    for _ in range(limits.MAX_DEPTH + 2):
        folder /= "d"
    folder.mkdir(parents=True)

    outcome = initialize(tmp_path / "source", models)

    assert outcome.exit_code == 8
    assert outcome.reason.endswith("lies in more than 100 folders; move it up")


def test_links_that_multiply_are_refused(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four folders of ten links to the next make ten thousand files of one."""
    monkeypatch.setattr("storage_initializer.backends.MAX_FILES", 1000)
    source = tmp_path / "source"
    write_files(source, {"4/weights": b"x"})
    for number in range(4):
        (source / str(number)).mkdir()
        for link in range(10):
            (source / str(number) / str(link)).symlink_to(source / str(number + 1))

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (
        8,
        f"{source}: there are more than 1,000 files in it; name the folder of the model alone",
    )


# --- killed runs -------------------------------------------------------------------------------------


def test_a_run_killed_at_its_second_source_has_put_nothing_in_place_and_the_next_one_does(
    models: Path, tmp_path: Path
) -> None:
    """The second file comes byte by byte until then."""
    content = {"/base.bin": os.urandom(MIB), "/adapter.zip": packed_zip({"lora": b"lora"})}
    killed: list[int] = []

    def decide(request: Request) -> Answer | Endless:
        stalls = request.target == "/adapter.zip" and not killed
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        return Endless(head, b"x", every_s=0.05) if stalls else Answer(200, content[request.target])

    with proxy(None, decide) as server, forks() as runs:
        pairs = (f"{server.url}/base.bin", models / "base", f"{server.url}/adapter.zip", models / "adapters")
        environment = {"TERMINATION_LOG": str(tmp_path / "reason")}
        run = runs.start(*pairs, environment=environment)
        arriving = models / "adapters" / STAGING / "arriving/adapter.zip"
        eventually(arriving.exists, "the second file is asked for")
        killed.append(run.kill_after(0))
        after_the_kill = {path for path in read_tree(models) if STAGING not in path}

        assert runs.start(*pairs, environment=environment).exit_code() == 0

    assert (killed, after_the_kill) == ([-signal.SIGKILL], set())
    assert read_tree(models) == {"base/base.bin": content["/base.bin"], "adapters/lora": b"lora"}


# --- disks and archives ------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_an_archive_that_does_not_fit_leaves_nothing(initialize: Initialize, small_disk: Path) -> None:
    archive = packed_zip({"1.bin": os.urandom(MIB), "2.bin": os.urandom(MIB), "3.bin": os.urandom(MIB)})
    with proxy(None, lambda _: Answer(200, archive)) as server:
        outcome = initialize(f"{server.url}/42", small_disk / "models", **ONCE)

    assert outcome.exit_code == 10
    assert list((small_disk / "models").iterdir()) == []


def test_a_disk_that_fills_up_for_the_second_source_leaves_nothing_of_the_first(
    initialize: Initialize, small_disk: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "1", {"weights": bytes(3 * MIB)})
    write_files(tmp_path / "2", {"weights": bytes(2 * MIB)})

    outcome = initialize(tmp_path / "1", small_disk / "models/1", tmp_path / "2", small_disk / "models/2")

    assert (outcome.exit_code, read_tree(small_disk)) == (10, {})


def test_a_cache_whose_disk_is_full_is_done_without(initialize: Initialize, small_disk: Path, models: Path) -> None:
    content = bytes(5 * MIB)
    with proxy(None, store(listing(("m/weights", str(len(content)))), content)) as server:
        cache = {"STORAGE_CACHE": str(small_disk / "cache"), "STORAGE_CACHE_SIZE": str(100 * MIB)}
        outcome = initialize("s3://models/m", models, **s3_environment(server.url), **cache)

    assert (outcome.exit_code, visible(models)) == (0, {"weights": content})
    assert "is of no use (its disk has 4.0 MiB free); downloading without it" in "\n".join(outcome.log)
    assert outcome.log[-1].startswith("done: 1 file, 5.0 MiB")


def test_a_cache_whose_disk_fills_up_during_the_download_is_done_without(
    initialize: Initialize, small_disk: Path, models: Path
) -> None:
    content = bytes(3 * MIB)

    def decide(request: Request) -> Answer:
        if "list-type" not in request.target:
            (small_disk / "of another program").write_bytes(bytes(2 * MIB))
        return store(listing(("m/weights", str(len(content)))), content)(request)

    with proxy(None, decide) as server:
        cache = {"STORAGE_CACHE": str(small_disk / "cache"), "STORAGE_CACHE_SIZE": str(100 * MIB)}
        outcome = initialize("s3://models/m", models, **s3_environment(server.url), **cache)

    assert (outcome.exit_code, visible(models)) == (0, {"weights": content})
    assert "is of no use (No space left on device); downloading without it" in "\n".join(outcome.log)
    assert outcome.log[-1].startswith("done: 1 file, 3.0 MiB")


@pytest.mark.parametrize("address", ["42", "download?path=/model.zip"])
def test_a_bomb_is_refused_whatever_its_address(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("model_archive.contents.HARMLESS_SIZE", MIB)
    with ZipFile(tmp_path / "bomb", "w", ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(64 * MIB))
    with proxy(None, lambda _: Answer(200, (tmp_path / "bomb").read_bytes())) as server:
        outcome = initialize(f"{server.url}/{address}", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (14, {})
    assert re.search("claims to unpack to 64.0 MiB or more; do not use it", outcome.reason)


def test_an_ordinary_user_meets_the_same_bounds(initialize: Initialize, tmp_path: Path, small_disk: Path) -> None:
    """As a pod does: root could write to what is full or another's."""
    small_disk.chmod(0o777)
    (tmp_path / "termination-log").chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    with proxy(None, store(listing(("m/weights", str(5 * MIB))))) as server, ordinary_user():
        outcome = initialize("s3://models/m", small_disk / "models", **s3_environment(server.url))

    assert outcome.exit_code == 10
