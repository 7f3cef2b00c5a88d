"""A model's way from a bucket to the pod's disk, beside KServe's own storage-initializer, from the same server.

The server speaks TLS with a certificate that both sides are told to trust. Both run as a pod runs them, a process for
each model; the rate is that of the transfer, without the imports. The bucket's files are in the page cache, the
destination is a disk, and ``dd`` of the same bytes to it says what it can do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import environments
from tests.bench.downloads import Download, download
from tests.bench.options import Options
from tests.bench.peers.ours import sources
from tests.bench.report import Measured, Row, versions
from tests.support.limits import memory_limit
from tests.support.object_stores import tls, versitygw

ROOT = Path(__file__).parents[2]
_PEER = "kserve-storage"
_BUCKET = "models"
_MB, _MIB = 1_000_000, 1 << 20
_MEMORY_MIB = 256
_MANY = 100  # files
_CACHED = "big"  # the case that is taken from the node's cache as well


@dataclass(frozen=True)
class Case:
    """So many objects of one size, how often they are brought, and how much faster than by the peer they must come."""

    name: str
    what: str
    count: int
    size: int
    runs: int
    faster: float | None


_CASES = (
    Case("big", "one object of 5 GB", 1, 5_000 * _MB, 5, 1.5),
    Case("middle", "20 objects of 200 MB", 20, 200 * _MB, 5, None),
    Case("small", "2,000 objects of 100 KB", 2_000, 100_000, 11, 5),
)
_SPARSE_SIZE = 20_000 * _MB


def measure(options: Options) -> Measured:
    """All cases on one server, one after the other."""
    fewer = 10 if options.quick else 1
    rows: list[Row] = []
    cells: list[Mapping[str, Any]] = []
    with _bench(options) as bench:
        for case in _CASES:
            _measure_case(bench, _smaller(case, fewer), rows, cells)
        rows.append(_sparse_row(bench, _SPARSE_SIZE // fewer))
    return Measured(rows, versions(**_versions()), cells)


@dataclass(frozen=True)
class _Bench:
    """The server, the peer's interpreter, and a folder on the disk that is written to."""

    server: versitygw.S3Server
    authority: Path
    peer: Path
    folder: Path

    def source(self, case: Case) -> Path:
        return self.server.root / _BUCKET / case.name

    def ours(self, case: Case, **environment: str) -> Download:
        return self._download([sys.executable, environments.PROGRAMS / "own_download.py"], case, environment)

    def theirs(self, case: Case) -> Download:
        return self._download([self.peer, environments.PROGRAMS / "kserve_download.py"], case, {})

    def dd(self, case: Case) -> float:
        """The rate at which this disk takes the same files, MB/s."""
        destination = self._settle(case)
        destination.mkdir()
        started = time.perf_counter()
        for file in sorted(self.source(case).iterdir()):
            subprocess.run(["dd", "status=none", "bs=16M", f"if={file}", f"of={destination / file.name}"], check=True)
        seconds = time.perf_counter() - started
        _discard(destination, case)
        return case.count * case.size / seconds / 1e6

    def _download(self, command: Sequence[str | Path], case: Case, environment: Mapping[str, str]) -> Download:
        destination = self._settle(case)
        whole = [*command, f"s3://{_BUCKET}/{case.name}", destination]
        found = download(whole, {**self.environment(), **environment}, destination)
        _discard(destination, case)
        return found

    def _settle(self, case: Case) -> Path:
        """Where to write to. What others have written is on the disk, so that nobody pays for it; and there is memory
        for as much again: a virtual machine may have to ask its host for a file's pages, which costs more than to copy.
        """
        file, blocks = self.folder / "settle", case.count * case.size // _MIB
        subprocess.run(["dd", "status=none", "bs=1M", f"count={blocks}", "if=/dev/zero", f"of={file}"], check=True)
        file.unlink()
        subprocess.run(["sync"], check=True)
        return Path(tempfile.mkdtemp(dir=self.folder)) / "model"

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "PYTHONPATH": sources(ROOT),
            "AWS_ACCESS_KEY_ID": versitygw.OWNER.access,
            "AWS_SECRET_ACCESS_KEY": versitygw.OWNER.secret,
            "AWS_DEFAULT_REGION": versitygw.REGION,
            "AWS_ENDPOINT_URL": self.server.url,
            "AWS_CA_BUNDLE": str(self.authority),
        }


@contextlib.contextmanager
def _bench(options: Options) -> Iterator[_Bench]:
    options.cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-storage-", dir=options.cache))
    try:
        certificate = tls.issue(folder / "tls")
        with versitygw.running(folder / "s3", certificate) as server:
            server.create_bucket(_BUCKET)
            yield _Bench(server, certificate.authority, environments.python(_PEER, options), folder)
    finally:
        shutil.rmtree(folder)


def _measure_case(bench: _Bench, case: Case, rows: list[Row], cells: list[Mapping[str, Any]]) -> None:
    """In turns, so that a noisy minute hits all sides."""
    _fill(bench.source(case), case)
    turns = [(bench.theirs(case), bench.ours(case), bench.dd(case)) for _ in range(case.runs)]
    theirs, ours, disk = zip(*turns, strict=True)
    runs: dict[str, Sequence[Download]] = {"ours": ours, _PEER: theirs}
    cached = _from_cache(bench, case) if case.name == _CACHED else None
    shutil.rmtree(bench.source(case))
    rows += _rows(case, ours, theirs, statistics.median(disk))
    cells += [{"case": case.name, "side": side, **asdict(run)} for side, found in runs.items() for run in found]
    cells += [{"case": case.name, "side": "dd", "mb_per_s": rate} for rate in disk]
    if cached:
        rows.append(_cache_row(case, ours, cached))
        cells.append({"case": case.name, "side": "ours, cached", **asdict(cached)})


def _rows(case: Case, ours: Sequence[Download], theirs: Sequence[Download], disk: float) -> Iterator[Row]:
    rate, peer_rate = (statistics.median(run.mb_per_s for run in runs) for runs in (ours, theirs))
    wall, peer_wall = (statistics.median(run.wall_s for run in runs) for runs in (ours, theirs))
    peak, peer_peak = (max(run.peak_mib for run in runs) for runs in (ours, theirs))
    yield Row(f"storage-{case.name}-rate", f"{case.what}: rate", round(rate, 1), "MB/s",
              f"≥ {case.faster:g}×" if case.faster else "–", rate >= (case.faster or 0) * peer_rate,
              _PEER, round(peer_rate, 1))  # fmt: skip
    if case.size > _MB:  # of small ones, dd would only measure its own starts
        yield Row(f"storage-{case.name}-disk", f"{case.what}: rate, beside the disk's", round(rate, 1), "MB/s",
                  "–", True, "dd", round(disk, 1))  # fmt: skip
    yield Row(f"storage-{case.name}-wall", f"{case.what}: process started → ended", round(wall, 2), "s", "–", True,
              _PEER, round(peer_wall, 2))  # fmt: skip
    yield Row(f"storage-{case.name}-memory", f"{case.what}: most memory of all processes", round(peak, 1), "MiB",
              f"≤ {_MEMORY_MIB}", peak <= _MEMORY_MIB, _PEER, round(peer_peak, 1))  # fmt: skip


def _from_cache(bench: _Bench, case: Case) -> Download:
    """The second pod of a node: the first has left the model in its cache."""
    cache = bench.folder / "cache"
    settings = {"STORAGE_CACHE": str(cache), "STORAGE_CACHE_SIZE": str(2 * case.count * case.size)}
    try:
        bench.ours(case, **settings)
        return bench.ours(case, **settings)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _cache_row(case: Case, downloaded: Sequence[Download], cached: Download) -> Row:
    wall = statistics.median(run.wall_s for run in downloaded)
    return Row("storage-cache", f"{case.what}: second pod of a node, from its cache", round(cached.wall_s, 2), "s",
               "≤ 1/5", 5 * cached.wall_s <= wall, "downloaded", round(wall, 2))  # fmt: skip


def _sparse_row(bench: _Bench, size: int) -> Row:
    """A file with nothing in it costs the server nothing to read; the client cannot know."""
    source, destination = bench.server.root / _BUCKET / "sparse/weights", bench.folder / "destination"
    source.parent.mkdir()
    with source.open("wb") as stream:
        stream.truncate(size)
    versitygw.set_etag(source, "0" * 32 + "-2")
    command = [sys.executable, "-m", "storage_initializer", f"s3://{_BUCKET}/sparse", str(destination)]
    started = time.perf_counter()
    with memory_limit(_MEMORY_MIB * _MIB) as limited:
        ended = subprocess.run(command, env=bench.environment(), preexec_fn=limited, check=False)
    seconds, whole = time.perf_counter() - started, ended.returncode == 0
    shutil.rmtree(destination, ignore_errors=True)
    return Row("storage-limit", f"{size / 1e9:g} GB with a limit of {_MEMORY_MIB} MiB, page cache included",
               round(seconds, 1), "s", "arrives", whole)  # fmt: skip


def _fill(folder: Path, case: Case) -> None:
    """Of random bytes, no two objects the same, with the entity tags that an uploading client leaves."""
    folder.mkdir()
    for number in range(case.count):
        path, left = folder / f"part-{number:04}.bin", case.size
        with path.open("wb") as stream:
            while left:
                left -= stream.write(os.urandom(min(left, 16 * _MIB)))
        whole = case.size < 8 * _MIB  # larger ones are uploaded in parts, and so their tag is not their digest
        versitygw.set_etag(path, hashlib.md5(path.read_bytes()).hexdigest() if whole else f"{number:032x}-25")


def _discard(destination: Path, case: Case) -> None:
    """Many files are left to the end: for each new one, ext4 would look at all that were deleted minutes before."""
    if case.count < _MANY:
        shutil.rmtree(destination)


def _smaller(case: Case, fewer: int) -> Case:
    if case.count > 1:
        return replace(case, count=case.count // fewer)
    return replace(case, size=case.size // fewer, what=f"{case.what} / {fewer}" if fewer > 1 else case.what)


def _versions() -> dict[str, str]:
    return {_PEER: environments.versions(_PEER)["kserve-storage"], "boto3": environments.versions(_PEER)["boto3"]}
