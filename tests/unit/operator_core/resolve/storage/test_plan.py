"""How the model gets to the server: what is copied, what is mounted, and what the copy needs."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import OperatorConfig, StorageInitializerConfig, parse_config
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.storage.plan import PodPreset, StoragePlan, storage_source
from tests.support.builders import a_resolved, a_runtime, a_service
from tests.support.credentials import a_context, a_secret, an_account

DIRECT = {"storage.isvc-operator.io/pvc-mode": "direct"}
MODEL = {"modelFormat": {"name": "pytorch"}}


def plan_of(
    uri: str | None = None,
    uris: list[dict[str, str]] | None = None,
    *,
    server_type: str | None = "torchserve",
    config: OperatorConfig | None = None,
    context: StorageContext | None = None,
    **service: Any,
) -> StoragePlan | None:
    """The plan for one URI, or for several; the service is the story's otherwise."""
    if uris is not None:
        service |= {"model": None, "predictor": {"model": MODEL, "storageUris": uris}}
    elif uri is not None:
        service |= {"model": {"storageUri": uri}}
    runtime = a_runtime(server_type=server_type)
    return a_resolved(a_service(**service), runtime, config, context).predictor.storage


def refused(uri: str | None = None, uris: list[dict[str, str]] | None = None, **fields: Any) -> str:
    with pytest.raises(InvalidSpec) as caught:
        plan_of(uri, uris, **fields)
    return str(caught.value)


# --- one source ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "claim", "path"),
    [
        ("pvc://leeway", "leeway", ""),
        ("pvc://leeway/", "leeway", ""),
        ("pvc://leeway/sub/path/", "leeway", "sub/path"),
        ("PVC://leeway/sub", "leeway", "sub"),
        ("pvc://leeway/a#b?c", "leeway", "a#b?c"),
    ],
)
def test_a_claim_is_copied_to_the_models_folder(uri: str, claim: str, path: str) -> None:
    plan = plan_of(uri)

    assert plan == StoragePlan(copied=(storage_source(uri, "/mnt/models"),), layout="torchserve")
    assert (plan.copied[0].claim, plan.copied[0].path) == (claim, path)


@pytest.mark.parametrize(
    "uri", ["s3://bucket/prefix", "gs://bucket/model", "https://example.com/model.mar", "S3://b", "/mnt/there"]
)
def test_any_other_source_is_copied_there_and_mounts_no_claim(uri: str) -> None:
    plan = plan_of(uri)

    assert plan == StoragePlan(copied=(storage_source(uri, "/mnt/models"),), layout="torchserve")
    assert plan.copied[0].claim is None


@pytest.mark.parametrize(("server_type", "layout"), [("mine", "none"), ("mlserver", "none"), ("mar", "auto")])
def test_the_folder_is_checked_as_its_server_reads_it(server_type: str | None, layout: str) -> None:
    plan = plan_of(server_type=server_type)

    assert plan is not None
    assert plan.layout == layout


@pytest.mark.parametrize("uri", [None, ""])
def test_a_model_without_storage_needs_no_plan(uri: str | None) -> None:
    assert plan_of(model={"storageUri": uri}) is None


@pytest.mark.parametrize("uri", ["pvc://", "pvc:///sub/path"])
def test_a_claim_without_a_name_is_refused(uri: str) -> None:
    assert refused(uri) == f"storageUri '{uri}' names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"


def test_a_path_that_climbs_out_of_its_claim_is_refused() -> None:
    assert refused("pvc://leeway/../other").startswith("storageUri 'pvc://leeway/../other' has '..' in its path")


@pytest.mark.parametrize("uri", ["hdfs://name/node", "modelscope://owner/model", "foo://x"])
def test_a_scheme_that_nothing_downloads_is_refused_with_those_that_work(uri: str) -> None:
    assert refused(uri) == (
        f"storageUri '{uri}' has a scheme that is not supported; use one of s3://, gs://, abfs://, abfss://, "
        "hf://, https://, http://, pvc://, file://, or install a ClusterStorageContainer for it (there is none)"
    )


@pytest.mark.parametrize("uri", ["git://me:token@host/model?sig=secret", "https://token@host/model.git"])
def test_a_message_shows_no_secret_of_a_uri(uri: str) -> None:
    message = refused(uri)

    assert "…@host/model" in message
    assert "token" not in message
    assert "secret" not in message


# --- several sources ----------------------------------------------------------------------------------


def test_several_sources_share_one_volume_above_their_folders() -> None:
    uris = [
        {"uri": "s3://bucket/base", "mountPath": "/mnt/models/base/"},
        {"uri": "pvc://leeway/adapters", "mountPath": "/mnt/models/adapters"},
    ]

    assert plan_of(uris=uris) == StoragePlan(
        copied=(
            storage_source("s3://bucket/base", "/mnt/models/base"),
            storage_source("pvc://leeway/adapters", "/mnt/models/adapters"),
        ),
        folder="/mnt/models",
        layout="none",
    )


def test_one_source_among_several_fields_is_checked_and_mounted_at_its_own_folder() -> None:
    plan = plan_of(uris=[{"uri": "gs://bucket/model", "mountPath": "/opt/model"}])

    assert plan == StoragePlan(
        (storage_source("gs://bucket/model", "/opt/model"),), folder="/opt/model", layout="torchserve"
    )


def test_a_source_without_a_mount_path_goes_to_the_models_folder() -> None:
    plan = plan_of(uris=[{"uri": "gs://bucket/model"}])

    assert plan is not None
    assert plan.copied == (storage_source("gs://bucket/model", "/mnt/models"),)


def test_folders_that_have_only_the_root_in_common_are_refused() -> None:
    uris = [{"uri": "s3://b/1", "mountPath": "/mnt/one"}, {"uri": "s3://b/2", "mountPath": "/opt/two"}]

    assert "no folder in common" in refused(uris=uris)


def test_a_uri_beside_several_is_refused() -> None:
    predictor = {"storageUris": [{"uri": "s3://b/1"}]}

    assert refused(predictor=predictor) == (
        "storageUri and storageUris are both given; move storageUri into storageUris"
    )


# --- claims that are mounted ---------------------------------------------------------------------------


def test_a_claim_may_be_mounted_by_annotation_and_nothing_is_copied() -> None:
    assert plan_of("pvc://leeway/sub", annotations=DIRECT) == StoragePlan(
        copied=(), mounted=(storage_source("pvc://leeway/sub", "/mnt/models"),)
    )


def test_the_configuration_may_say_so_for_all_and_the_annotation_still_wins() -> None:
    config = OperatorConfig(storage_initializer=StorageInitializerConfig(enable_direct_pvc_volume_mount=True))
    copy = {"storage.isvc-operator.io/pvc-mode": "copy"}
    mounted, copied = plan_of(config=config), plan_of(config=config, annotations=copy)

    assert mounted is not None
    assert copied is not None
    assert (len(mounted.mounted), len(copied.mounted)) == (1, 0)


def test_a_mounted_claim_stands_beside_what_is_copied() -> None:
    uris = [
        {"uri": "s3://bucket/base", "mountPath": "/mnt/models/base"},
        {"uri": "pvc://leeway", "mountPath": "/mnt/models/more"},
    ]

    plan = plan_of(uris=uris, annotations=DIRECT)

    assert plan == StoragePlan(
        copied=(storage_source("s3://bucket/base", "/mnt/models/base"),),
        mounted=(storage_source("pvc://leeway", "/mnt/models/more"),),
        folder="/mnt/models/base",
    )


def test_two_claims_at_one_place_are_refused() -> None:
    assert "same mountPath" in refused(uris=[{"uri": "pvc://a"}, {"uri": "pvc://b"}], annotations=DIRECT)


def test_a_way_to_mount_that_is_not_known_is_refused_with_those_that_are() -> None:
    annotations = {"storage.isvc-operator.io/pvc-mode": "link"}

    assert refused(annotations=annotations) == (
        "annotation storage.isvc-operator.io/pvc-mode is 'link'; write copy or direct"
    )


# --- what the copy needs -------------------------------------------------------------------------------


def preset_of(plan: StoragePlan | None) -> PodPreset:
    assert plan is not None
    return plan.preset


def test_the_account_of_the_predictor_gives_its_credentials() -> None:
    context = a_context(an_account("s3", name="loader"), a_secret("s3"))

    preset = preset_of(plan_of("s3://b/m", context=context, predictor={"serviceAccountName": "loader"}))

    assert [item["name"] for item in preset.env] == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]


def test_a_claim_is_copied_without_credentials() -> None:
    assert preset_of(plan_of(context=a_context(an_account("s3"), a_secret("s3")))) == PodPreset()


def test_an_account_that_does_not_exist_is_no_error() -> None:
    assert preset_of(plan_of("s3://b/m")) == PodPreset()


def test_a_missing_secret_is_reported_with_what_names_it() -> None:
    with pytest.raises(InvalidCredentials) as caught:
        plan_of("s3://b/m", context=a_context(an_account("s3")))

    assert str(caught.value) == (
        "secret s3, which service account default or an annotation names, does not exist; "
        "create it, or remove its name there"
    )


@pytest.mark.parametrize("place", ["service", "predictor", "account"])
def test_a_secret_may_be_named_by_an_annotation(place: str) -> None:
    named = {"serving.kserve.io/storageSecretName": "s3"}
    account = an_account(annotations=named if place == "account" else None)
    fields: dict[str, Any] = {
        "service": {"annotations": named},
        "predictor": {"predictor": {"annotations": named}},
        "account": {},
    }[place]

    preset = preset_of(plan_of("s3://b/m", context=a_context(account, a_secret("s3")), **fields))

    assert preset.env[0]["valueFrom"] == {"secretKeyRef": {"name": "s3", "key": "AWS_ACCESS_KEY_ID"}}


CHECKSUM = "a" * 64


def test_checksums_are_passed_on() -> None:
    annotations = {"storage.isvc-operator.io/sha256": f'{{"model-store/bert.mar": "{CHECKSUM}"}}'}

    assert preset_of(plan_of(annotations=annotations)).value("STORAGE_SHA256") == (
        f'{{"model-store/bert.mar": "{CHECKSUM}"}}'
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not json", "is not a JSON object"),
        ('["a"]', "is not a JSON object"),
        ('{"a.mar": "abc"}', "has 'abc' for a.mar; write 64 hexadecimal digits"),
        ('{"a.mar": null}', "has None for a.mar"),
    ],
)
def test_checksums_that_are_none_are_refused(text: str, told: str) -> None:
    assert told in refused(annotations={"storage.isvc-operator.io/sha256": text})


def test_resources_of_the_copy_are_a_json_object() -> None:
    name = "storage.isvc-operator.io/resources"
    plan = plan_of(annotations={name: '{"limits": {"memory": "2Gi"}}'})

    assert plan is not None
    assert plan.resources == {"limits": {"memory": "2Gi"}}
    assert refused(annotations={name: "2Gi"}) == (
        f'annotation {name} is not a JSON object; write for example {{"limits": {{"memory": "2Gi"}}}}'
    )
    assert refused(annotations={name: '{"limits": {"memory": "2GG"}}'}) == (
        f"annotation {name}: limits.memory: this is not a quantity; write one such as 500m or 2Gi"
    )


CACHE = {"name": "storage-cache", "mountPath": "/mnt/storage-cache"}
CACHES = {
    "of the node": (
        '{"hostPath": "/var/cache/models", "maxSize": "1Gi"}',
        {"hostPath": {"path": "/var/cache/models", "type": "DirectoryOrCreate"}},
    ),
    "on a claim": (
        '{"claimName": "models-cache", "maxSize": "1Gi"}',
        {"persistentVolumeClaim": {"claimName": "models-cache"}},
    ),
}


@pytest.mark.parametrize(("cache", "volume"), CACHES.values(), ids=CACHES.keys())
def test_a_cache_is_mounted_for_remote_sources(cache: str, volume: dict[str, Any]) -> None:
    config = parse_config({"storageInitializer": f'{{"cache": {cache}}}'})

    assert preset_of(plan_of("s3://b/m", config=config)) == PodPreset(
        env=(
            {"name": "STORAGE_CACHE", "value": "/mnt/storage-cache"},
            {"name": "STORAGE_CACHE_SIZE", "value": "1073741824"},
        ),
        volumes=({"name": "storage-cache", **volume},),
        mounts=(CACHE,),
    )
    assert preset_of(plan_of("pvc://leeway", config=config)) == PodPreset()


# --- certificates --------------------------------------------------------------------------------------

ADMINISTRATORS = parse_config({"storageInitializer": '{"caBundleConfigMapName": "corporate"}'})


def mounted_certificates(preset: PodPreset) -> tuple[str, str]:
    (volume,), (mount,) = preset.volumes, preset.mounts
    assert volume["name"] == mount["name"] == "cabundle-cert"
    assert volume["configMap"]["name"] == preset.value("CA_BUNDLE_CONFIGMAP_NAME")
    assert mount["mountPath"] == preset.value("CA_BUNDLE_VOLUME_MOUNT_POINT")
    assert mount["readOnly"] is True
    return volume["configMap"]["name"], mount["mountPath"]


def test_the_administrators_certificates_are_mounted_from_the_copy_in_the_namespace() -> None:
    preset = preset_of(plan_of("https://models.example.com/m.mar", config=ADMINISTRATORS))

    assert mounted_certificates(preset) == ("global-ca-bundle", "/etc/ssl/custom-certs")


def test_those_that_a_secret_names_come_before_them() -> None:
    annotations = {
        "serving.kserve.io/s3-cabundle-configmap": "minios",
        "serving.kserve.io/s3-cabundle": "/certs/ca.crt",
    }
    context = a_context(an_account("s3"), a_secret("s3", annotations=annotations))

    preset = preset_of(plan_of("s3://b/m", config=ADMINISTRATORS, context=context))

    assert mounted_certificates(preset) == ("minios", "/certs")


def test_without_any_nothing_is_mounted() -> None:
    assert preset_of(plan_of("https://models.example.com/m.mar")) == PodPreset()
