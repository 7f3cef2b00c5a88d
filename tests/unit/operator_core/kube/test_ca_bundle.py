"""The administrator's certificates in the namespaces that need them."""

from __future__ import annotations

import pytest

from isvc_operator.errors import InvalidCredentials
from isvc_operator.kube.objects import FOUND_TTL, ObjectReader, copy_ca_bundle
from tests.support.builders import NAMESPACE
from tests.support.credentials import a_config_map
from tests.support.fakes import FakeKubeApi, Seconds

HOME = "isvc-system"
DATA = {"cabundle.crt": "-----BEGIN CERTIFICATE-----"}


@pytest.fixture
def api() -> FakeKubeApi:
    api = FakeKubeApi()
    api.put(a_config_map("corporate", HOME, **DATA))
    return api


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def objects(api: FakeKubeApi, clock: Seconds) -> ObjectReader:
    return ObjectReader(api, clock)


async def mirror(objects: ObjectReader) -> None:
    await copy_ca_bundle(objects, "corporate", home=HOME, namespace=NAMESPACE)


def writes(api: FakeKubeApi) -> list[str]:
    return [call.path for call in api.calls if call.method != "GET"]


async def test_a_copy_that_is_up_to_date_is_left_alone(api: FakeKubeApi, objects: ObjectReader, clock: Seconds) -> None:
    await mirror(objects)
    calls = len(api.calls)
    await mirror(objects)
    assert len(api.calls) == calls
    clock.passed = FOUND_TTL

    await mirror(objects)

    assert len(writes(api)) == 1


async def test_a_change_of_theirs_reaches_the_copy(api: FakeKubeApi, objects: ObjectReader, clock: Seconds) -> None:
    await mirror(objects)
    api.put(a_config_map("corporate", HOME, **{"cabundle.crt": "new"}))
    clock.passed = FOUND_TTL

    await mirror(objects)

    assert (api.get("ConfigMap", NAMESPACE, "global-ca-bundle") or {})["data"] == {"cabundle.crt": "new"}


async def test_missing_certificates_are_reported_with_what_names_them(objects: ObjectReader) -> None:
    with pytest.raises(InvalidCredentials) as caught:
        await copy_ca_bundle(objects, "missing", home=HOME, namespace=NAMESPACE)

    assert str(caught.value) == (
        "ConfigMap missing, which caBundleConfigMapName of inferenceservice-config names, does not exist in "
        "namespace isvc-system; create it with the key cabundle.crt"
    )
