"""Rows about the storage-initializer, which is run on folders and on a hub on this machine."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from storage_initializer.backends.local import LocalSource
from storage_initializer.cli import main
from tests.contract.troubles.rows import Provoked, Tried
from tests.integration.storage.conftest import ordinary_user
from tests.support.model_folder import STORY_CONFIG, write_mar, write_volume
from tests.support.object_stores import hub as hubs
from tests.support.object_stores.hub import TOKEN
from tests.support.object_stores.proxy import Answer, Decide, Request, proxy
from tests.support.object_stores.tls import Certificate, issue
from tests.support.ports import free_port

Try = Callable[[Path], str]
TORCHSERVE = {"STORAGE_LAYOUT": "torchserve"}
ONCE = {"S3_MAX_ATTEMPTS": "1"}
S3 = {"AWS_ACCESS_KEY_ID": "key", "AWS_DEFAULT_REGION": "us-east-1", **ONCE}
# As a list of objects it is empty, and as an object it is a file.
SERVED = Answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>")
DENIED = Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
ELSEWHERE = Answer(400, b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>")
DISK = shutil.disk_usage("/")


def told(*arguments: object, **environment: str) -> str:
    """Return the exit code and the reason of a run; nothing of one that succeeds."""
    log = Path(str(arguments[1])).parent / "termination-log"
    log.write_text("")
    code = main([str(argument) for argument in arguments], {"TERMINATION_LOG": str(log), **environment})
    return f"{code} {log.read_text()}" if code else ""


def of_folder(change: Callable[[Path], object], config: str = STORY_CONFIG, **environment: str) -> Try:
    """Bring the story's folder after a change."""

    def run(place: Path) -> str:
        source = write_volume(place / "pvc/leeway", config)
        change(source)
        return told(source, place / "models", **environment)

    return run


def of_claim(uri: str, **mounted: bool) -> Try:
    """Bring a part of the claim `leeway`."""

    def run(place: Path) -> str:
        write_volume(place / "pvc/leeway")
        flags = ("--pvc-root", place / "pvc") if mounted.get("mounted", True) else ()
        return told(uri, place / "models", *flags)

    return run


def of_hub(uri: str = "hf://org/bert", **environment: str) -> Try:
    """Bring a model of a hub, on which org/bert is public and org/mine is gated."""

    def run(place: Path) -> str:
        with hubs.running() as hub:
            hub.put("org/bert", {"config.json": b"{}"})
            hub.put("org/mine", {"config.json": b"{}"}, gated=True)
            return told(uri, place / "models", **{"HF_ENDPOINT": hub.url, **ONCE, **environment})

    return run


def of_bucket(answer: Answer, **environment: str) -> Try:
    """Bring a prefix of a bucket of which a server says `answer`."""
    return lambda place: of_server(place, lambda _: answer, **environment)


def of_server(place: Path, decide: Decide, certificate: Certificate | None = None, **environment: str) -> str:
    with proxy(None, decide, certificate) as server:
        settings = {"AWS_ENDPOINT_URL": server.url, "AWS_SECRET_ACCESS_KEY": "secret", **S3, **environment}
        return told("s3://models/bert", place / "models", **settings)


def of_secure_bucket(*, with_bundle: bool) -> Try:
    """Bring a prefix of a bucket of a server whose certificate an authority of its own has signed."""

    def run(place: Path) -> str:
        certificate = issue(place / "certificate")
        bundle = {"AWS_CA_BUNDLE": str(certificate.authority)} if with_bundle else {}
        return of_server(place, lambda _: SERVED, certificate, **bundle)

    return run


def of_region(region: str) -> Try:
    """Bring a prefix of a bucket in eu-west-1, with requests that are signed for a region."""

    def decide(request: Request) -> Answer:
        return SERVED if "/eu-west-1/s3/" in request.headers["authorization"] else ELSEWHERE

    return lambda place: of_server(place, decide, AWS_DEFAULT_REGION=region)


def while_uploaded(*, is_complete: bool) -> Try:
    """Bring a folder; unless it is complete, a file grows after its size was read."""

    def run(place: Path) -> str:
        source = write_volume(place / "source")
        listed = LocalSource.list_files

        def list_files(of: LocalSource) -> object:
            files = listed(of)
            with (source / "config/config.properties").open("a") as config:
                config.write("" if is_complete else "more")
            return files

        with patch.object(LocalSource, "list_files", list_files):
            return told(source, place / "models")

    return run


def read_by_another(mode: int) -> Try:
    """Bring a folder as user 1000, with an archive of this mode."""

    def run(place: Path) -> str:
        source = write_volume(place / "source")
        archive = source / "model-store/bert-model.mar"
        archive.chmod(mode)
        with ordinary_user():
            return told(source, place / "models")

    return run


def written_by_another(mode: int) -> Try:
    """Bring a folder as user 1000 into one of this mode."""

    def run(place: Path) -> str:
        source = write_volume(place / "source")
        (place / "models").mkdir()
        (place / "models").chmod(mode)
        with ordinary_user():
            return told(source, place / "models")

    return run


def into(destination: str) -> Try:
    """Bring the story's folder into a folder."""

    def run(place: Path) -> str:
        source = write_volume(place / "pvc/leeway")
        (place / destination).parent.mkdir(parents=True, exist_ok=True)
        return told(source, place / destination)

    return run


def on_disk(free: int) -> Try:
    """Bring a folder to a disk with so many bytes free."""

    def run(place: Path) -> str:
        source = write_volume(place / "source")
        with patch("shutil.disk_usage", lambda _: DISK._replace(free=free)):
            return told(source, place / "models")

    return run


def empty(source: Path) -> None:
    shutil.rmtree(source)
    source.mkdir()


def filled_again(source: Path) -> None:
    empty(source)
    write_volume(source)


def linked(source: Path) -> None:
    (source / "model-store/name").symlink_to("/etc/hostname")


def copied(source: Path) -> None:
    linked(source)
    (source / "model-store/name").unlink()
    shutil.copy("/etc/hostname", source / "model-store/name")


def misplaced(source: Path) -> None:
    (source / "config/config.properties").rename(source / "config.properties")


def placed(source: Path) -> None:
    misplaced(source)
    (source / "config").mkdir(exist_ok=True)
    (source / "config.properties").rename(source / "config/config.properties")


def truncated(source: Path) -> None:
    os.truncate(source / "model-store/bert-model.mar", 100)


def copied_again(source: Path) -> None:
    truncated(source)
    write_mar(source / "model-store/bert-model.mar")


def as_it_is(source: Path) -> None:
    assert stat.S_ISDIR(source.stat().st_mode)


MISSPELT = STORY_CONFIG.replace("bert-model.mar", "bert-modl.mar")
CLOSED = f"http://127.0.0.1:{free_port()}"
HERE: tuple[Tried, ...] = (
    Provoked(
        ("2", "HF_TOKEN has characters that no token has"),
        "HF_TOKEN has characters that no token has",
        of_hub("hf://org/mine", HF_TOKEN=f'"{TOKEN}"'),
        of_hub("hf://org/mine", HF_TOKEN=f"{TOKEN}\n"),
    ),
    Provoked(
        ("2", "AWS_SECRET_ACCESS_KEY has a line end"),
        "AWS_SECRET_ACCESS_KEY has a line end or another character that cannot be sent",
        of_bucket(SERVED, AWS_SECRET_ACCESS_KEY="a\nb"),
        of_bucket(SERVED, AWS_SECRET_ACCESS_KEY="ab\n"),
    ),
    Provoked(("3", "hdfs:// is not supported"), "hdfs:// is not supported", of_claim("hdfs://leeway/model-store"),
             of_claim("pvc://leeway/model-store")),
    Provoked(("4", "claim c is not mounted"), "claim leeway is not mounted at /mnt/pvc/leeway",
             of_claim("pvc://leeway", mounted=False), of_claim("pvc://leeway")),
    Provoked(("5", "there is no modl-store"), "did you mean model-store?", of_claim("pvc://leeway/modl-store"),
             of_claim("pvc://leeway/model-store")),
    Provoked(("5", "HUB shows no model"), "shows no model org/bret", of_hub("hf://org/bret"), of_hub()),
    Provoked(("6", "there is no file in it"), "there is no file in it", of_folder(empty), of_folder(filled_again)),
    Provoked(("7", "PATH (mode 0600"), "(mode 0600, owner ", read_by_another(0o600), read_by_another(0o604)),
    Provoked(("7", "401 or 403"), "may not be read as access key key (403)", of_bucket(DENIED),
             of_bucket(SERVED)),
    Provoked(("7", "OWNER/MODEL may not be read"), "accept the terms at", of_hub("hf://org/mine"),
             of_hub("hf://org/mine", HF_TOKEN=TOKEN)),
    Provoked(("8", "x links to /etc/hostname"), "links to /etc/hostname, outside of the source", of_folder(linked),
             of_folder(copied)),
    Provoked(("9", "it overlaps with"), "keep the two apart", into("pvc/leeway/models"), into("models")),
    Provoked(("10", "it needs 3.0 GiB"), "free; use a bigger volume or node", on_disk(10), on_disk(DISK.total)),
    Provoked(("11", "the folder for the model"), "cannot be written as user ", written_by_another(0o555),
             written_by_another(0o777)),
    Provoked(("12", "F changed while"), "changed while it was copied; start again when it is complete",
             while_uploaded(is_complete=False), while_uploaded(is_complete=True)),
    Provoked(("13", "there is no config/config.properties"), "there is no config/config.properties",
             of_folder(misplaced, **TORCHSERVE), of_folder(placed, **TORCHSERVE)),
    Provoked(("13", "config/config.properties names bert-modl.mar"), "did you mean bert-model.mar?",
             of_folder(as_it_is, MISSPELT, **TORCHSERVE), of_folder(as_it_is, **TORCHSERVE)),
    Provoked(("14", "model-store/bert-model.mar is truncated"), "model-store/bert-model.mar is truncated",
             of_folder(truncated, **TORCHSERVE), of_folder(copied_again, **TORCHSERVE)),
    Provoked(("15", "HOST cannot be reached"), "127.0.0.1", of_hub(HF_ENDPOINT=CLOSED), of_hub()),
    Provoked(("16", "the certificate of HOST"), "is not trusted", of_secure_bucket(with_bundle=False),
             of_secure_bucket(with_bundle=True)),
    Provoked(("17", "HUB does not respond like"), "does not respond like a Hugging Face hub",
             lambda place: of_no_hub(place), of_hub()),
    Provoked(("17", "the server returns 500"), "50", of_bucket(Answer(500)), of_bucket(SERVED)),
    Provoked(("18", "the bucket is in another region"), "the bucket models is in the region eu-west-1",
             of_region("us-east-1"), of_region("eu-west-1")),
)  # fmt: skip


def of_no_hub(place: Path) -> str:
    """Bring a model from a server that serves pages."""
    with proxy(None, lambda _: Answer(200, b"<html>")) as server:
        return of_hub(HF_ENDPOINT=server.url)(place)
