"""What the operator renders for the init container is what the storage-initializer reads."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc_operator.config import OperatorConfig, parse_config
from storage_initializer.backends.hf import HubAccess, hub_access
from storage_initializer.backends.s3_access import S3Access, s3_access
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import InitializerError, UnsupportedSchemeError
from storage_initializer.plan import CachePlan, LayoutName, Plan, Transfer, make_plan
from storage_initializer.registry import open_source
from storage_initializer.schemes import SCHEMES
from storage_initializer.uri import parse_uri
from tests.support.build_cache import ROOT
from tests.support.builders import Manifest, a_runtime, a_service, the_children, the_shipped_runtime
from tests.support.credentials import (
    GCS_KEY,
    HTTP_HEADERS,
    S3_KEYS,
    a_context,
    a_secret,
    an_account,
    s3_annotations,
)

SERVER_TYPES = {"torchserve": LayoutName.TORCHSERVE, "mlserver": LayoutName.NONE, None: LayoutName.NONE}


def pod_of(
    uri: str | None,
    *secrets: Manifest,
    server_type: str | None = "torchserve",
    account: Manifest | None = None,
    config: OperatorConfig | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """The pod of a service with this URI, whose account has these secrets."""
    account = account or an_account(*(secret["metadata"]["name"] for secret in secrets))
    service = a_service(**{"model": {"storageUri": uri}, **fields})
    context = a_context(account, *secrets)
    children = the_children(service, a_runtime("mine", server_type=server_type), config, context)
    pod: dict[str, Any] = children["Deployment"]["spec"]["template"]["spec"]
    return pod


def environment_of(pod: dict[str, Any], *secrets: Manifest) -> dict[str, str]:
    """The initializer's variables as the kubelet makes them."""
    stored = {secret["metadata"]["name"]: secret["data"] for secret in secrets}
    environment: dict[str, str] = {}
    for item in pod["initContainers"][0]["env"]:
        reference = item.get("valueFrom", {}).get("secretKeyRef")
        text = base64.b64decode(stored[reference["name"]][reference["key"]]).decode() if reference else item["value"]
        environment[item["name"]] = _filled(text, environment)
    return environment


def _filled(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: known.get(match[1], match[0]), text)


def plan_of(pod: dict[str, Any]) -> Plan:
    (initializer,) = pod["initContainers"]
    return make_plan(initializer["args"], environment_of(pod))


@pytest.mark.parametrize(("server_type", "layout"), SERVER_TYPES.items())
def test_the_initializer_reads_what_was_rendered(server_type: str | None, layout: LayoutName) -> None:
    plan = plan_of(pod_of("pvc://leeway/bert", server_type=server_type))

    assert (plan.transfers, plan.pvc_root, plan.layout, plan.termination_log) == (
        (Transfer(parse_uri("pvc://leeway/bert"), Path("/mnt/models")),),
        Path("/mnt/pvc"),
        layout,
        Path("/dev/termination-log"),
    )


def test_every_variable_that_is_rendered_for_a_claim_is_one_that_the_initializer_reads() -> None:
    pod = pod_of("pvc://leeway")
    arguments = pod["initContainers"][0]["args"]

    for name in environment_of(pod):
        with_it = make_plan(arguments, {name: "none"})
        assert with_it != make_plan(arguments, {}), name


@pytest.mark.parametrize(
    "uri", ["pvc://leeway", "pvc://leeway/", "pvc://leeway/sub/50%.mar", "PVC://leeway/a", "pvc://leeway/a#b?c"]
)
def test_a_claim_is_mounted_where_the_initializer_looks_for_it(uri: str) -> None:
    pod = pod_of(uri)
    plan = plan_of(pod)
    (transfer,) = plan.transfers
    mounts = {item["mountPath"]: item for item in pod["initContainers"][0]["volumeMounts"]}
    volumes = {item["name"]: item for item in pod["volumes"]}

    mount = mounts[str(plan.pvc_root / transfer.source.authority)]

    assert mount["readOnly"] is True
    assert volumes[mount["name"]]["persistentVolumeClaim"] == {
        "claimName": transfer.source.authority,
        "readOnly": True,
    }


def test_the_initializer_writes_where_the_server_reads() -> None:
    pod = pod_of("pvc://leeway")
    (transfer,) = plan_of(pod).transfers
    containers = (pod["initContainers"][0], pod["containers"][0])

    written, read = (
        next(item for item in container["volumeMounts"] if item["mountPath"] == str(transfer.destination))
        for container in containers
    )

    assert written["name"] == read["name"]
    assert not written.get("readOnly")
    assert read["readOnly"] is True


def test_several_sources_are_pairs_below_one_mount() -> None:
    uris = [
        {"uri": "s3://bucket/base", "mountPath": "/mnt/models/base"},
        {"uri": "pvc://leeway/more", "mountPath": "/mnt/models/more"},
    ]
    predictor = {"model": {"modelFormat": {"name": "pytorch"}}, "storageUris": uris}

    pod = pod_of(None, model=None, predictor=predictor)

    plan = plan_of(pod)
    assert plan.transfers == tuple(Transfer(parse_uri(item["uri"]), Path(item["mountPath"])) for item in uris)
    assert plan.layout is LayoutName.NONE
    mount = pod["initContainers"][0]["volumeMounts"][0]["mountPath"]
    assert all(transfer.destination.is_relative_to(mount) for transfer in plan.transfers)


def test_the_kubelet_reads_the_reason_where_the_initializer_writes_it() -> None:
    (initializer,) = pod_of("pvc://leeway")["initContainers"]

    assert initializer.get("terminationMessagePath", "/dev/termination-log") == str(
        plan_of(pod_of("pvc://leeway")).termination_log
    )


def test_the_shipped_runtime_asks_for_the_layout_of_torchserve() -> None:
    children = the_children(runtime=the_shipped_runtime())

    assert plan_of(children["Deployment"]["spec"]["template"]["spec"]).layout is LayoutName.TORCHSERVE


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_that_the_operator_accepts_has_a_backend(scheme: str) -> None:
    plan = make_plan([f"{scheme}://place/model.mar", "/mnt/models"], {})
    refused: list[InitializerError] = []

    with suppress(InitializerError):
        try:
            open_source(plan.transfers[0], plan)
        except UnsupportedSchemeError as error:
            refused.append(error)

    assert refused == []


# --- what a download is given ---------------------------------------------------------------------------


def test_checksums_and_the_cache_are_read() -> None:
    config = parse_config({"storageInitializer": '{"cache": {"claimName": "models", "maxSize": "1Ki"}}'})
    annotations = {"storage.isvc-operator.io/sha256": f'{{"a.mar": "{"a" * 64}"}}'}

    pod = pod_of("s3://bucket/model", config=config, annotations=annotations)

    plan, mounts = plan_of(pod), [item["mountPath"] for item in pod["initContainers"][0]["volumeMounts"]]
    assert plan.cache == CachePlan(Path("/mnt/storage-cache"), 1024)
    assert str(plan.cache.folder) in mounts
    assert plan.selection.sha256 == {"a.mar": "a" * 64}


def test_the_daemon_set_of_the_page_fills_the_cache_of_services() -> None:
    page = (ROOT / "docs/starts.md").read_text()
    (settings,) = re.findall(r'`(\{"cache": .+?\}\})`', page)
    (text,) = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    preparing = yaml.safe_load(text)["spec"]["template"]["spec"]
    _, download = preparing["initContainers"]

    served = pod_of("s3://models/bert", config=parse_config({"storageInitializer": settings}))

    assert plan_of({"initContainers": [download]}).cache == plan_of(served).cache
    assert [one for one in served["volumes"] if one["name"] == "storage-cache"] == preparing["volumes"]
    assert [one for one in served["initContainers"][0]["volumeMounts"] if one["name"] == "storage-cache"] == (
        download["volumeMounts"]
    )


def test_patterns_and_the_token_of_a_hub_are_read() -> None:
    annotations = {
        "storage.isvc-operator.io/allow-patterns": '["*.json", "*.safetensors"]',
        "storage.isvc-operator.io/ignore-patterns": "onnx/",
    }
    secret = a_secret("hub", {"HF_TOKEN": "hf_the-token"})

    pod = pod_of("hf://org/bert:v1", secret, annotations=annotations)

    (initializer,) = pod["initContainers"]
    plan = make_plan(initializer["args"], environment_of(pod, secret))
    selection, access = plan.selection, hub_access(plan.transfers[0].source, plan.environment)
    assert (selection.allow, selection.ignore) == (("*.json", "*.safetensors"), ("onnx/*",))
    assert access == HubAccess("https://huggingface.co", "org/bert", "v1", Trust(), "hf_the-token")
    assert "hf_the-token" not in f"{access!r} {pod}"


def access_of(*secrets: Manifest, **fields: Any) -> S3Access:
    return s3_access("bucket", environment_of(pod_of("s3://bucket/model", *secrets, **fields), *secrets))


MINIO = s3_annotations(endpoint="minio:9000", usehttps="0", region="eu-west-1", verifyssl="0")


def test_the_annotations_of_a_secret_say_where_the_bucket_is() -> None:
    access = access_of(a_secret("s3", annotations=MINIO))

    assert (access.bucket_url, access.region, access.trust.verify) == ("http://minio:9000/bucket", "eu-west-1", False)
    assert str(access.identity) == "access key the-id"


def test_settings_under_keys_of_the_secret_say_the_same() -> None:
    data = {
        **S3_KEYS,
        "S3_ENDPOINT": "minio:9000",
        "S3_USE_HTTPS": "0",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "S3_VERIFY_SSL": "0",
    }

    assert access_of(a_secret("s3", data)) == access_of(a_secret("s3", annotations=MINIO))


def test_an_entry_of_the_storage_secret_says_the_same() -> None:
    entry = (
        '{"type": "s3", "bucket": "bucket", "endpoint_url": "http://minio:9000", "region": "eu-west-1", '
        '"verify_ssl": "0", "access_key_id": "the-id", "secret_access_key": "the-secret"}'
    )
    secret = a_secret("storage-config", {"minio": entry})
    model = {"storageUri": None, "storage": {"key": "minio", "path": "model"}}

    pod = pod_of(None, secret, account=an_account(), model=model)

    assert pod["initContainers"][0]["args"] == ["s3://bucket/model", "/mnt/models"]
    assert s3_access("bucket", environment_of(pod, secret)) == access_of(a_secret("s3", annotations=MINIO))


def test_a_public_bucket_is_asked_without_a_name() -> None:
    anonymous = access_of(a_secret("s3", {}, annotations=s3_annotations(useanoncredential="true")))

    assert anonymous.identity == s3_access("bucket", {"awsAnonymousCredential": "true"}).identity


@pytest.mark.parametrize("own", [{}, {"cabundle": "/certs/ca.crt"}])
def test_certificates_are_read_where_they_are_mounted(own: dict[str, str]) -> None:
    secret = a_secret("s3", annotations=s3_annotations(cabundle_configmap="minios", **own))
    pod = pod_of("s3://bucket/model", secret)

    ca_file = s3_access("bucket", environment_of(pod, secret)).trust.ca_file

    (mount,) = [item for item in pod["initContainers"][0]["volumeMounts"] if item["name"] == "cabundle-cert"]
    assert Path(ca_file).parent == Path(mount["mountPath"])


def test_a_google_account_is_mounted_where_its_variable_says() -> None:
    secret = a_secret("google", GCS_KEY)
    pod = pod_of("gs://bucket/model", secret)

    file = Path(environment_of(pod, secret)["GOOGLE_APPLICATION_CREDENTIALS"])

    (mount,) = [item for item in pod["initContainers"][0]["volumeMounts"] if item["name"] == "user-gcp-sa"]
    assert Path(mount["mountPath"]) == file.parent
    assert file.name in secret["data"]


def test_headers_have_the_name_of_their_host() -> None:
    secret = a_secret("web", HTTP_HEADERS)

    environment = environment_of(pod_of("https://models.example.com/m.mar", secret), secret)

    assert environment["models.example.com-headers"] == HTTP_HEADERS["headers"]
