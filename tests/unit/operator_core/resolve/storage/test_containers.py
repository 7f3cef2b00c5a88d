"""Which container downloads: the storage-initializer as it is configured, or one of the cluster's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.storage.plan import storage_source
from isvc_operator.resolve.storage.planning import choose_container
from tests.support.builders import a_service, the_children
from tests.support.credentials import a_context, a_storage_container


def chosen(*uris: str, named: str | None = None, containers: Sequence[ClusterStorageContainer] = ()) -> str | None:
    sources = [storage_source(uri, f"/mnt/models/{number}") for number, uri in enumerate(uris)]
    found = choose_container(sources, named, containers)
    return found.metadata.name if found else None


def refused(*uris: str, named: str | None = None, containers: Sequence[ClusterStorageContainer] = ()) -> str:
    with pytest.raises(InvalidSpec) as caught:
        chosen(*uris, named=named, containers=containers)
    return str(caught.value)


def test_without_one_the_storage_initializer_downloads() -> None:
    assert chosen("s3://b/m") is None


@pytest.mark.parametrize(
    ("format_", "uri", "fits"),
    [
        ({"prefix": "custom://"}, "custom://m", True),
        ({"prefix": "custom://"}, "s3://custom://m", False),
        ({"regex": r"https://(.+?)\.blob\.core\.windows\.net/(.+)"}, "https://me.blob.core.windows.net/models/m", True),
        ({"regex": r"\.onnx$"}, "s3://b/m.onnx", True),
        ({"regex": r"\.onnx$"}, "s3://b/m.mar", False),
        ({"regex": "("}, "s3://b/m", False),
    ],
)
def test_one_is_taken_for_the_uris_that_it_lists(format_: dict[str, str], uri: str, fits: bool) -> None:
    assert chosen(uri, containers=[a_storage_container(**format_)]) == ("mine" if fits else None)


@pytest.mark.parametrize(
    ("uri", "service"),
    [
        (
            "https://me.blob.core.windows.net/models/m?sig=secret",
            "Azure Blob Storage with a query, a login or no TLS",
        ),
        ("https://me.file.core.windows.net/share/m", "Azure Files"),
        ("https://git.example.com/team/model.git", "a Git repository"),
        ("https://git.example.com/team/model.git?ref=main", "a Git repository"),
    ],
)
def test_a_service_behind_https_needs_one(uri: str, service: str) -> None:
    assert refused(uri) == (
        f"storageUri '{uri.partition('?')[0]}' is {service}, which the storage-initializer does not read; install a "
        "ClusterStorageContainer for it (there is none), or copy the model to a bucket or a claim"
    )
    assert chosen(uri, containers=[a_storage_container(prefix="https://")]) == "mine"


@pytest.mark.parametrize(
    "uri",
    [
        "https://me.dfs.core.windows.net/models/m",
        "https://example.com/m.mar",
        "https://blob.core.windows.net.example.com/m.mar",
        "https://example.com/a.git/m.mar",
    ],
)
def test_another_web_server_needs_none(uri: str) -> None:
    assert chosen(uri) is None


def test_of_several_the_first_by_name_counts() -> None:
    containers = [a_storage_container(name, prefix="s3://") for name in ("b", "a")]

    assert chosen("s3://b/m", containers=containers) == "a"


@pytest.mark.parametrize("fields", [{"disabled": True}, {"workload": "localModelDownloadJob"}])
def test_one_that_is_disabled_or_of_another_use_is_passed_over(fields: dict[str, object]) -> None:
    assert chosen("s3://b/m", containers=[a_storage_container(prefix="s3://", **fields)]) is None


def test_a_service_may_name_one() -> None:
    containers = [a_storage_container(name, prefix="s3://") for name in ("a", "b")]

    assert chosen("s3://b/m", named="b", containers=containers) == "b"


def test_one_that_is_named_and_not_there_is_refused_with_those_that_are() -> None:
    assert refused("s3://b/m", named="c", containers=[a_storage_container("a")]) == (
        "ClusterStorageContainer 'c' of spec.predictor.storageContainerName does not exist or is disabled; available: a"
    )


def test_a_named_one_that_does_not_support_the_uri_is_refused() -> None:
    message = refused("s3://me:password@b/m", named="mine", containers=[a_storage_container()])

    assert "does not download 's3://…@b/m'" in message


def test_several_uris_need_one_container_for_all() -> None:
    containers = [a_storage_container("a", prefix="s3://", several=True), a_storage_container("b", prefix="gs://")]

    assert "need several ClusterStorageContainers" in refused("s3://b/m", "gs://b/m", containers=containers)
    assert chosen("s3://b/1", "s3://b/2", containers=containers) == "a"


def test_one_that_supports_one_uri_only_is_refused_for_several() -> None:
    containers = [a_storage_container("a", prefix="s3://")]

    assert "downloads one URI only" in refused("s3://b/1", "s3://b/2", containers=containers)


def test_its_fields_go_over_those_of_the_storage_initializer() -> None:
    container = a_storage_container(
        env=[{"name": "TOKEN", "value": "t"}], resources={"limits": {"memory": "8Gi"}}, imagePullPolicy="Always"
    )
    service = a_service(
        model={"storageUri": "custom://m"},
        annotations={"storage.isvc-operator.io/resources": '{"limits": {"cpu": "4"}}'},
    )

    pod = the_children(service, context=a_context(containers=(container,)))["Deployment"]["spec"]["template"]["spec"]

    (initializer,) = pod["initContainers"]
    assert (initializer["name"], initializer["image"]) == ("storage-initializer", "registry.example/mine:1")
    assert initializer["args"] == ["custom://m", "/mnt/models"]
    assert initializer["imagePullPolicy"] == "Always"
    assert {"name": "TOKEN", "value": "t"} in initializer["env"]
    assert initializer["resources"] == {
        "requests": {"cpu": "100m", "memory": "100Mi"},
        "limits": {"cpu": "4", "memory": "8Gi"},
    }
    assert initializer["securityContext"]["runAsNonRoot"] is True
