"""A Hugging Face hub on loopback, with the part of its API by which models are downloaded.

A small file comes from the hub itself, as Git stores it. A large one is in Git LFS: the hub redirects to a signed
address of another server, which refuses the hub's tokens, as object stores do. ``huggingface_hub`` itself downloads
from it too (``tests/integration/storage/test_hub.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.object_stores.proxy import Action, Answer, Decide, Proxy, Request, harmless, proxy

TOKEN = "hf_a-token-of-the-hub"
_LFS_BYTES = 1000  # files from this size on are in Git LFS


@dataclass(frozen=True)
class Repository:
    """A model; ``revisions`` are the names of its commits. One that is ``private`` is there for the token only."""

    commits: Mapping[str, Mapping[str, bytes]]
    revisions: Mapping[str, str]
    private: bool = False
    gated: bool = False


@dataclass
class Hub:
    """``front`` is the hub, ``store`` has the large files. ``signature`` is the only one that the store accepts now.

    ``store_url`` is where clients find the store.
    """

    models: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)  # by their SHA-256
    signature: str = "signature-0"
    store_url: str = ""
    front: Proxy = field(init=False)
    store: Proxy = field(init=False)

    @property
    def url(self) -> str:
        return self.front.url

    def put(self, name: str, files: Mapping[str, bytes], *, private: bool = False, gated: bool = False) -> str:
        """Commit to the branch main, and return the commit."""
        there = self.models.get(name, Repository({}, {}))
        commit = hashlib.sha1(repr((len(there.commits), sorted(files.items()))).encode()).hexdigest()
        commits, revisions = {**there.commits, commit: files}, {**there.revisions, "main": commit}
        self.models[name] = Repository(commits, revisions, private, gated)
        return commit

    def tag(self, name: str, revision: str, commit: str) -> None:
        there = self.models[name]
        self.models[name] = Repository(there.commits, {**there.revisions, revision: commit}, there.private, there.gated)

    def expire_signatures(self) -> None:
        self.signature = f"signature-{int(self.signature.rpartition('-')[2]) + 1}"

    def answer(self, request: Request) -> Answer:
        """The hub's answer."""
        url = urlsplit(request.target)
        match [unquote(part) for part in url.path.strip("/").split("/")]:
            case ["api", "models", owner, name, "refs"]:
                return self._refs(request, f"{owner}/{name}")
            case ["api", "models", owner, name, "revision", revision]:
                return self._info(request, f"{owner}/{name}", revision, blobs="blobs" in parse_qs(url.query))
            case ["api", "models", owner, name, "tree", revision]:
                return self._tree(request, f"{owner}/{name}", revision)
            case [owner, name, "resolve", revision, *path]:
                return self._resolve(request, f"{owner}/{name}", revision, "/".join(path))
        return Answer(404)

    def stored(self, request: Request) -> Answer:
        """The store's answer to a signed address."""
        url = urlsplit(request.target)
        if parse_qs(url.query).get("Signature") != [self.signature]:
            return Answer(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        if "authorization" in request.headers:
            return Answer(400, b"<Error><Code>InvalidArgument</Code></Error>")
        wanted = url.path.strip("/")
        content = self.large.get(wanted)
        return Answer(404) if content is None else _ranged(request, content, {"ETag": f'"{wanted}"'})

    def _refs(self, request: Request, name: str) -> Answer:
        if refusal := self._refusal(request, name):
            return refusal
        refs = [
            {"name": revision, "ref": f"refs/heads/{revision}", "targetCommit": commit}
            for revision, commit in self.models[name].revisions.items()
        ]
        return _json({"branches": refs, "converts": [], "tags": []})

    def _info(self, request: Request, name: str, revision: str, *, blobs: bool) -> Answer:
        if refusal := self._refusal(request, name, revision):
            return refusal
        commit = self._commit(name, revision)
        files = self.models[name].commits[commit]
        siblings = [_sibling(path, content, blobs=blobs) for path, content in files.items()]
        return _json({"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False, "tags": []})

    def _tree(self, request: Request, name: str, revision: str) -> Answer:
        """The files as ``huggingface_hub`` lists them for itself, on one page."""
        if refusal := self._refusal(request, name, revision):
            return refusal
        files = self.models[name].commits[self._commit(name, revision)]
        return _json([_entry(path, content) for path, content in files.items()])

    def _resolve(self, request: Request, name: str, revision: str, path: str) -> Answer:
        if refusal := self._refusal(request, name, revision, content=True):
            return refusal
        commit = self._commit(name, revision)
        content = self.models[name].commits[commit].get(path)
        if content is None:
            return _refused(404, "EntryNotFound", "Entry not found")
        linked = {"X-Repo-Commit": commit, "X-Linked-Size": str(len(content))}
        if len(content) < _LFS_BYTES:
            return _ranged(request, content, {**linked, "ETag": f'"{_git_name(content)}"'})
        sha256 = hashlib.sha256(content).hexdigest()
        self.large[sha256] = content
        location = f"{self.store_url}/{sha256}?Signature={self.signature}"
        return Answer(302, b"", {**linked, "X-Linked-Etag": f'"{sha256}"', "Location": location})

    def _refusal(self, request: Request, name: str, revision: str = "", *, content: bool = False) -> Answer | None:
        given = request.headers.get("authorization")
        if given not in (None, f"Bearer {TOKEN}"):
            return _refused(401, "", "Invalid credentials in Authorization header")
        repository = self.models.get(name)
        if repository is None or (repository.private and not given):
            return _refused(404 if given else 401, "RepoNotFound", "Repository not found")
        if revision and not self._commit(name, revision):
            return _refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if content and repository.gated and not given:
            return _refused(401, "GatedRepo", f"Access to model {name} is restricted.")
        return None

    def _commit(self, name: str, revision: str) -> str:
        repository = self.models[name]
        return repository.revisions.get(revision, revision if revision in repository.commits else "")


@contextlib.contextmanager
def running(decide: Decide = harmless, decide_stored: Decide = harmless) -> Iterator[Hub]:
    """A hub without models, for the block; the two functions do harm to requests for the hub and for its store."""
    hub = Hub()

    def front(request: Request) -> Action:
        return decide(request) or hub.answer(request)

    def store(request: Request) -> Action:
        return decide_stored(request) or hub.stored(request)

    with proxy(None, store) as hub.store, proxy(None, front) as hub.front:
        hub.store_url = hub.store.url
        yield hub


def _sibling(path: str, content: bytes, *, blobs: bool) -> dict[str, object]:
    if not blobs:
        return {"rfilename": path}
    found: dict[str, object] = {"rfilename": path, "size": len(content), "blobId": _git_name(content)}
    if len(content) >= _LFS_BYTES:
        found["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 135}
    return found


def _entry(path: str, content: bytes) -> dict[str, object]:
    sibling = _sibling(path, content, blobs=True)
    entry = {"type": "file", "path": path, "size": sibling["size"], "oid": sibling["blobId"]}
    sha256 = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 135}
    return {**entry, "lfs": sha256} if "lfs" in sibling else entry


def _git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _ranged(request: Request, content: bytes, headers: Mapping[str, str]) -> Answer:
    if request.method == "HEAD":
        return Answer(200, b"", headers)
    if "range" not in request.headers:
        return Answer(200, content, headers)
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    start, stop = int(first), min(int(last or len(content)), len(content) - 1) + 1
    return Answer(206, content[start:stop], {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"})


def _refused(status: int, code: str, message: str) -> Answer:
    return Answer(status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message})


def _json(document: object) -> Answer:
    return Answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})
