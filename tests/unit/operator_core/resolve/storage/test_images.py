"""Which URIs are images, how the pod uses each, and which cannot be used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError, InvalidSpec
from isvc_operator.resolve.storage.plan import ModelImage, StoragePlan, storage_source
from tests.support.builders import a_resolved, a_runtime, a_service
from tests.support.credentials import a_context, a_storage_container

MODEL = {"modelFormat": {"name": "pytorch"}}
IMAGE = "registry.example:5000/bert:1"


def plan_of(*uris: str, containers: Any = (), **settings: object) -> StoragePlan:
    """The plan for one URI, or for several, each in its own folder."""
    config = parse_config({"storageInitializer": json.dumps(settings)})
    several = [{"uri": uri, "mountPath": f"/mnt/models/{number}"} for number, uri in enumerate(uris)]
    predictor: dict[str, Any] = {"model": {**MODEL, "storageUri": uris[0]}}
    if len(uris) > 1:
        predictor = {"model": MODEL, "storageUris": several}
    service = a_service(model=None, predictor=predictor)
    context = a_context(containers=containers)
    storage = a_resolved(service, a_runtime(), config or OperatorConfig(), context).components[0].storage
    assert storage is not None
    return storage


def refused(*uris: str, **settings: object) -> str:
    with pytest.raises(InvalidSpec) as caught:
        plan_of(*uris, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("uri", "settings", "modelcar"),
    [
        (f"oci://{IMAGE}", {}, True),
        (f"OCI://{IMAGE}", {}, True),
        (f"oci://{IMAGE}", {"enableModelcar": True, "ociModelMode": ""}, True),
        (f"oci://{IMAGE}", {"enableModelcar": False, "enableOciModelSupport": True}, True),
        (f"oci://{IMAGE}", {"enableModelcar": False, "ociModelMode": "native"}, False),
        (f"oci://{IMAGE}", {"ociModelMode": "modelcar"}, True),
        (f"oci+native://{IMAGE}", {}, False),
        (f"oci+modelcar://{IMAGE}", {"ociModelMode": "native"}, True),
    ],
)
def test_the_uri_and_else_the_configuration_says_how(uri: str, settings: dict[str, object], modelcar: bool) -> None:
    assert plan_of(uri, **settings) == StoragePlan(copied=(), images=(ModelImage(IMAGE, "/mnt/models", modelcar),))


def test_images_are_beside_what_is_copied() -> None:
    plan = plan_of("s3://bucket/base", f"oci://{IMAGE}", f"oci+native://{IMAGE}")

    assert (plan.copied, plan.folder) == ((storage_source("s3://bucket/base", "/mnt/models/0"),), "/mnt/models/0")
    assert plan.images == (ModelImage(IMAGE, "/mnt/models/1", True), ModelImage(IMAGE, "/mnt/models/2", False))


REFUSALS = {
    "no image": ("oci://", {}, "storageUri 'oci://' names no image; write oci://REGISTRY/IMAGE:TAG"),
    "a login": (
        "oci://me:password@registry.example/model",
        {},
        "storageUri 'oci://…@registry.example/model' names no image; write oci://REGISTRY/IMAGE:TAG",
    ),
    "a capital letter": (
        "oci://registry.example/Model",
        {},
        "storageUri 'oci://registry.example/Model' names no image; write oci://REGISTRY/IMAGE:TAG",
    ),
    "a blank": ("oci://a b", {}, "storageUri 'oci://a b' names no image; write oci://REGISTRY/IMAGE:TAG"),
    "turned off": (
        f"oci://{IMAGE}", {"enableModelcar": False},
        f"storageUri 'oci://{IMAGE}' is an image, and the administrator has turned these off; set enableModelcar of "
        "storageInitializer in the ConfigMap inferenceservice-config, or copy the model to a bucket or a claim",
    ),
    "fetched": (
        f"oci+fetch://{IMAGE}", {},
        f"storageUri 'oci+fetch://{IMAGE}' asks for the mode fetch, which is not supported; write oci+modelcar:// for "
        "a container beside the server, or oci+native:// for an image volume (ociModelMode has the default)",
    ),
    "fetched by default": (
        f"oci://{IMAGE}", {"ociModelMode": "fetch"},
        f"storageUri 'oci://{IMAGE}' asks for the mode fetch, which is not supported; write oci+modelcar:// for a "
        "container beside the server, or oci+native:// for an image volume (ociModelMode has the default)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("uri", "settings", "told"), REFUSALS.values(), ids=REFUSALS)
def test_an_image_that_cannot_be_used_is_refused(uri: str, settings: dict[str, object], told: str) -> None:
    assert refused(uri, **settings) == told


def test_a_mode_that_nobody_knows_is_no_configuration() -> None:
    with pytest.raises(ConfigError, match=r"storageInitializer\.ociModelMode"):
        parse_config({"storageInitializer": '{"ociModelMode": "magic"}'})


def test_a_container_of_the_cluster_may_download_images_where_they_are_turned_off() -> None:
    container = a_storage_container(prefix="oci://")

    plan = plan_of(f"oci://{IMAGE}", containers=(container,), enableModelcar=False)

    assert (plan.copied, plan.images) == ((storage_source(f"oci://{IMAGE}", "/mnt/models"),), ())


@pytest.mark.parametrize(
    ("uris", "told"),
    [
        (
            [{"uri": f"oci://{IMAGE}", "mountPath": "/model"}],
            "the mountPath /model is at the root; put the image's model below a folder",
        ),
        (
            [{"uri": "oci+native://a", "mountPath": "/mnt/m"}, {"uri": "oci+native://b", "mountPath": "/mnt/m/"}],
            "two claims or images of storageUris have the same mountPath; give each one of its own",
        ),
    ],
)
def test_folders_that_cannot_hold_images_are_refused(uris: list[dict[str, str]], told: str) -> None:
    service = a_service(model=None, predictor={"model": MODEL, "storageUris": uris})
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(service, a_runtime(), OperatorConfig(), a_context())

    assert str(caught.value) == told
