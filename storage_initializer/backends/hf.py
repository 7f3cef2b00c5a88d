"""``hf://OWNER/MODEL[:REVISION]``: the files of one commit of a model on a Hugging Face hub.

``huggingface_hub`` asks the hub for the commit and its files, with our client below it; the files themselves are
downloaded like those of any other source, so that they are verified, resumed and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from storage_initializer.backends.client import Client, OpenResponse
from storage_initializer.backends.objects import Listed, files_below
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.redirects import following, origin_of
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.checksums import git_blob
from storage_initializer.errors import (
    AccessDeniedError,
    EmptySourceError,
    InitializerError,
    SourceNotFoundError,
    UnexpectedResponseError,
    UsageError,
)
from storage_initializer.plan import Plan, Transfer
from storage_initializer.sources import Checksum, Content, SourceFile, reported_size
from storage_initializer.suggest import suggestion
from storage_initializer.uri import Uri, checked_url

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

_ENDPOINT = "https://huggingface.co"
# Some servers refuse requests without it.
_AGENT = {"User-Agent": "isvc-storage-initializer"}
_SHA1 = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # what may follow Bearer (RFC 6750); quotes around it may not


@dataclass(frozen=True)
class HubAccess:
    """``revision`` is a branch, a tag or a commit."""

    endpoint: str
    model: str
    revision: str
    trust: Trust
    token: str = field(default="", repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def identity(self) -> str:
        return "with the token in HF_TOKEN" if self.token else "without a token"


def hub_access(uri: Uri, environment: Mapping[str, str]) -> HubAccess:
    """Return the model's address on the hub; raise UsageError for an invalid endpoint or token."""
    name, _, revision = uri.path.partition(":")
    endpoint = checked_url(
        "HF_ENDPOINT", environment.get("HF_ENDPOINT") or _ENDPOINT, f"the hub's, such as {_ENDPOINT}"
    )
    token = environment.get("HF_TOKEN", "").strip()
    if token and not _TOKEN.fullmatch(token):
        # Without the text, which is a secret.
        raise UsageError("HF_TOKEN has characters that no token has; store the token again as it was issued")
    return HubAccess(endpoint, f"{uri.authority}/{name}", revision or "main", trust_of(environment), token)


def open_source(transfer: Transfer, plan: Plan) -> HubSource:
    access = hub_access(transfer.source, plan.environment)
    return HubSource(access, Client(access.trust, plan.policy, proxies_of(plan.environment)))


class HubSource:
    def __init__(self, access: HubAccess, client: Client) -> None:
        # Without the revision: the files have their own versions, and most are the same in the next commit.
        self.identity = f"{access.endpoint}/{access.model}"
        self._access = access
        self._client = client
        self._names: dict[PurePosixPath, str] = {}
        # Where the hub's redirects have led: signed addresses, which expire.
        self._locations: dict[PurePosixPath, str] = {}

    def describe(self) -> str:
        access, commit = self._access, self._commit
        route = self._client.describe_route(access.endpoint)
        return f"{access.identity}, endpoint {access.endpoint}{route}, commit {commit}"

    def list_files(self) -> Sequence[SourceFile]:
        try:
            files = [_listed(sibling) for sibling in self._info.siblings or ()]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._malformed(error) from None
        chosen = files_below("", files)
        if not chosen:
            raise EmptySourceError("there are no files in it; upload the model first")
        self._names = {file.path: name for name, file in chosen}
        return [file for _, file in chosen]

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        """Open a range of the file in the commit that was listed, which never changes."""
        whole = file.streamed or (start == 0 and stop == file.size)
        with self._get(file, {} if whole else {"Range": f"bytes={start}-{stop - 1}"}) as body:
            if body.status != (200 if whole else 206):
                self._refuse_file(file, body.status)
            body.check_start(start)
            yield body

    @contextmanager
    def _get(self, file: SourceFile, headers: Mapping[str, str]) -> Iterator[OpenResponse]:
        """GET the file from where the hub has sent its last request, else from the hub.

        Large files are on other servers. To ask the hub for each of their parts would meet its rate limit.
        """
        if location := self._locations.get(file.path):
            with self._client.request("GET", location, {**_AGENT, **headers}) as body:
                if body.status in (200, 206):
                    yield body
                    return
        access = self._access
        url = f"{access.endpoint}/{access.model}/resolve/{self._commit}/{quote(self._names[file.path])}"
        with following(self._client, url, {**_AGENT, **headers}, own=access.headers) as body:
            if origin_of(body.url) != origin_of(url):
                self._locations[file.path] = body.url
            yield body

    @property
    def _commit(self) -> str:
        if not _SHA1.fullmatch(str(self._info.sha)):
            raise self._malformed(f"{self._info.sha!s:.50} is not a commit")
        return str(self._info.sha)

    @cached_property
    def _info(self) -> ModelInfo:
        """The commit and its files, which the hub reports at once."""
        from huggingface_hub import HfApi, set_client_factory
        from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

        access = self._access
        set_client_factory(_client_factory(self._client, access.headers))
        api = HfApi(endpoint=access.endpoint, token=False)
        try:
            return api.model_info(access.model, revision=access.revision, files_metadata=True)
        except RevisionNotFoundError:
            raise SourceNotFoundError(
                f"{access.model} has no revision {access.revision}; {self._nearest_revision(api)}"
            ) from None
        except HfHubHTTPError as error:
            self._refuse(error)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise self._malformed(error) from None

    def _nearest_revision(self, api: HfApi) -> str:
        try:
            refs = api.list_repo_refs(self._access.model)
            return suggestion(self._access.revision, [ref.name for ref in (*refs.branches, *refs.tags)])
        except (InitializerError, OSError, KeyError, TypeError, ValueError, AttributeError):
            return "correct it"

    def _refuse(self, error: HfHubHTTPError) -> NoReturn:
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        access, status = self._access, error.response.status_code
        why = error.response.headers.get("X-Error-Message", "")[:200]
        if isinstance(error, GatedRepoError):
            raise AccessDeniedError(
                f"{access.model} is gated, and was requested {access.identity} ({status}); accept its terms at "
                f"{access.endpoint}/{access.model}, and put a token of that account into a secret with the key HF_TOKEN"
            ) from None
        if isinstance(error, RepositoryNotFoundError):
            raise SourceNotFoundError(
                f"{access.endpoint} shows no model {access.model} to a request {access.identity}; correct its name, "
                "or, if it is private, put a token that may read it into a secret with the key HF_TOKEN"
            ) from None
        if status in (401, 403):
            raise AccessDeniedError(
                f"{access.model} may not be read {access.identity} ({status}{why and ': '}{why}); put a valid token "
                "that may read it into a secret with the key HF_TOKEN"
            ) from None
        raise UnexpectedResponseError(
            f"{access.endpoint} responds with {status}{why and ': '}{why} for {access.model}; see whether HF_ENDPOINT "
            "is a hub"
        ) from None

    def _refuse_file(self, file: SourceFile, status: int) -> NoReturn:
        access = self._access
        if status in (401, 403):
            raise AccessDeniedError(
                f"{file.path} may not be read {access.identity} ({status}); accept the terms at "
                f"{access.endpoint}/{access.model}, and put a token of that account into a secret with the key HF_TOKEN"
            )
        if status == 404:
            raise SourceNotFoundError(f"{access.endpoint} lists {file.path} but does not have it; upload it again")
        raise UnexpectedResponseError(f"{access.endpoint} responds with {status} for {file.path}; see its log")

    def _malformed(self, why: object) -> UnexpectedResponseError:
        text = " ".join(str(why).split())
        return UnexpectedResponseError(
            f"{self._access.endpoint} does not respond like a Hugging Face hub ({text:.200}); correct HF_ENDPOINT"
        )


def _listed(sibling: RepoSibling) -> Listed:
    """Return a file as the hub lists it. A mirror may not report sizes; such a file is read as a whole."""
    name, blob, size = str(sibling.rfilename), str(sibling.blob_id or ""), sibling.size
    sha256 = str(sibling.lfs.sha256) if sibling.lfs else ""
    if size is None:
        return Listed(name, 0, version=blob, streamed=True)
    size = reported_size(str(size))
    if sibling.lfs:
        checksum = Checksum("sha256", sha256) if _SHA256.fullmatch(sha256) else None
    else:
        checksum = git_blob(blob, size) if _SHA1.fullmatch(blob) else None
    return Listed(name, size, version=sha256 or blob, checksum=checksum)


def _client_factory(client: Client, own: Mapping[str, str]) -> Callable[[], httpx2.Client]:
    """Return what makes the library's client: ours, so that it has our trust, timeouts, proxies and bounds."""
    import httpx2

    class Transport(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            with following(client, str(request.url), _AGENT, own=own) as body:
                headers = {name: value for name, value in body.headers.items() if name.lower().startswith("x-error-")}
                return httpx2.Response(body.status, headers=headers, content=body.read(), request=request)

    return lambda: httpx2.Client(transport=Transport())
