"""Objects that are read by name: each one once per period, and no others; and whether the cluster has a kind."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from isvc_operator.config import CredentialsConfig
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.objects import FOUND_TTL, MISSING_TTL, ObjectReader
from isvc_operator.kube.requests import path_of
from isvc_operator.resolve.requested import references, storage_requests
from isvc_operator.resolve.storage.plan import ObjectReference, Objects
from tests.support.builders import NAMESPACE, a_service
from tests.support.credentials import a_secret, an_account
from tests.support.fakes import FakeKubeApi, Seconds

ACCOUNT, SECRET = ObjectReference("ServiceAccount", "default"), ObjectReference("Secret", "s3")


@dataclass
class Reading:
    """An API server, and who reads from it for a service that downloads from S3."""

    api: FakeKubeApi = field(default_factory=FakeKubeApi)
    clock: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        self.reader = ObjectReader(self.api, self.clock)
        self.requests = storage_requests(a_service(model={"storageUri": "s3://b/m"}))

    async def read(self) -> tuple[Objects, list[str]]:
        """What was read, and the calls that this took."""
        before = len(self.api.calls)
        known = await self.reader.read_all(NAMESPACE, lambda known: references(self.requests, CONFIG, known))
        return known, [call.path.rpartition(f"/{NAMESPACE}/")[2] for call in self.api.calls[before:]]


CONFIG = CredentialsConfig()


@pytest.fixture
def reading() -> Reading:
    reading = Reading()
    for body in (an_account("s3"), a_secret("s3"), a_secret("another")):
        reading.api.put(body)
    return reading


async def test_the_account_is_read_and_then_its_secrets(reading: Reading) -> None:
    known, calls = await reading.read()

    assert calls == ["serviceaccounts/default", "secrets/s3"]
    assert {reference: body["metadata"]["name"] for reference, body in known.items() if body} == {
        ACCOUNT: "default",
        SECRET: "s3",
    }


async def test_an_object_is_cached_for_a_while(reading: Reading) -> None:
    first, _ = await reading.read()
    reading.clock.passed = FOUND_TTL - 1

    assert await reading.read() == (first, [])


async def test_and_read_again_after_that(reading: Reading) -> None:
    await reading.read()
    reading.api.put(a_secret("s3", {"AWS_ACCESS_KEY_ID": "new"}))
    reading.clock.passed = FOUND_TTL

    known, calls = await reading.read()

    assert calls == ["serviceaccounts/default", "secrets/s3"]
    assert (known[SECRET] or {})["data"] == a_secret("s3", {"AWS_ACCESS_KEY_ID": "new"})["data"]


async def test_a_missing_object_is_read_again_soon(reading: Reading) -> None:
    secret = reading.api.objects.pop(path_of("Secret", NAMESPACE, "s3"))
    assert (await reading.read())[0][SECRET] is None
    reading.api.put(secret)

    reading.clock.passed = MISSING_TTL - 1
    assert (await reading.read())[0][SECRET] is None
    reading.clock.passed = MISSING_TTL
    known, calls = await reading.read()

    assert (known[SECRET] is not None, calls) == (True, ["secrets/s3"])


async def test_an_object_that_may_not_be_read_is_an_error_and_is_not_remembered(reading: Reading) -> None:
    failing = ("GET", path_of("Secret", NAMESPACE, "s3"))
    reading.api.failing[failing] = RequestRefused(403, "secrets is forbidden")
    with pytest.raises(RequestRefused) as refused:
        await reading.read()
    assert str(refused.value) == (
        "secrets is forbidden; to allow it, bind the operator's role isvc-operator-credentials in namespace "
        f"{NAMESPACE} (docs/install.md)"
    )
    del reading.api.failing[failing]

    assert (await reading.read())[1] == ["secrets/s3"]


async def test_a_namespace_has_objects_of_its_own(reading: Reading) -> None:
    await reading.read()

    known = await reading.reader.read_all("elsewhere", lambda _: [ACCOUNT])

    assert known == {ACCOUNT: None}


async def test_an_api_server_that_does_not_say_whether_it_has_a_kind_is_an_error() -> None:
    api = FakeKubeApi()
    api.failing["GET", "/apis/keda.sh/v1alpha1"] = KubeError(503, "overloaded")

    with pytest.raises(KubeError):
        await ObjectReader(api, Seconds()).has_kind("ScaledObject")
