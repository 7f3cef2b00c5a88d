"""What has to be read before a service's storage can be resolved: names become known one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials
from isvc_operator.limits import SECRETS
from isvc_operator.resolve.requested import references, storage_requests
from isvc_operator.resolve.storage.plan import ObjectReference, Objects
from tests.support.builders import a_service
from tests.support.credentials import an_account

ACCOUNT = ObjectReference("ServiceAccount", "default")


def wanted(known: Objects | None = None, **fields: Any) -> frozenset[ObjectReference]:
    service = a_service(**{"model": {"storageUri": "s3://b/m"}, **fields})
    return references(storage_requests(service), CredentialsConfig(), known or {})


def secret(name: str) -> ObjectReference:
    return ObjectReference("Secret", name)


@pytest.mark.parametrize("uri", ["pvc://leeway", "file:///mnt/there", "/mnt/there", None])
def test_what_lies_in_the_pod_refers_to_nothing(uri: str | None) -> None:
    assert wanted(model={"storageUri": uri}) == frozenset()


def test_one_source_of_several_is_enough() -> None:
    uris = [{"uri": "pvc://leeway"}, {"uri": "https://example.com/m.mar", "mountPath": "/mnt/models/more"}]
    model = {"modelFormat": {"name": "pytorch"}}

    assert wanted(model=None, predictor={"model": model, "storageUris": uris}) == {ACCOUNT}


def test_first_the_account_is_wanted() -> None:
    assert wanted() == {ACCOUNT}
    assert wanted(predictor={"serviceAccountName": "loader"}) == {ObjectReference("ServiceAccount", "loader")}


def test_of_an_account_that_lists_too_many_secrets_none_is_read() -> None:
    names = [f"s{number}" for number in range(SECRETS)]

    assert len(wanted({ACCOUNT: an_account(*names)})) == SECRETS + 1
    with pytest.raises(InvalidCredentials, match="lists 101 secrets, and no more than 100 are read; name the one"):
        wanted({ACCOUNT: an_account(*names, "one-more")})


def test_a_secret_that_an_annotation_names_takes_their_place() -> None:
    account = an_account("one", "two", annotations={"serving.kserve.io/storageSecretName": "three"})

    assert wanted({ACCOUNT: account}) == {ACCOUNT, secret("three")}


def test_an_account_that_does_not_exist_leads_to_nothing() -> None:
    assert wanted({ACCOUNT: None}) == {ACCOUNT}


def test_storage_by_secret_wants_that_secret_and_none_of_the_accounts() -> None:
    model = {"storageUri": None, "storage": {"path": "bert"}}

    assert wanted({ACCOUNT: an_account("one")}, model=model) == {ACCOUNT, secret("storage-config")}


def test_image_pull_secrets_are_something_else() -> None:
    account = {**an_account(), "imagePullSecrets": [{"name": "registry"}]}

    assert wanted({ACCOUNT: account}) == {ACCOUNT}


def test_each_component_has_an_account_of_its_own() -> None:
    words = {"image": "t", "env": [{"name": "STORAGE_URI", "value": "s3://b/words"}]}
    transformer = {"containers": [words], "serviceAccountName": "front"}

    assert wanted(spec={"transformer": transformer}) == {ACCOUNT, ObjectReference("ServiceAccount", "front")}
    assert wanted(model=None, predictor={"containers": [words]}) == {ACCOUNT}
