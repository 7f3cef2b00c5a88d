"""Services whose pods serve TLS: which Secret, what is refused, and what reaches the pods and those who call them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidCertificate
from isvc_operator.observe.conditions import certificate_problem
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.plan import ObjectReference
from tests.support.builders import NAMESPACE, a_resolved, a_runtime, a_service
from tests.support.object_stores import tls

ANNOTATION = "isvc-operator.io/tls-secret"
READS = {"isvc-operator.io/settings": "PAYLOAD_LOGGER, TLS_DIR"}
REFERENCE = ObjectReference("Secret", "certs")


def a_secret(folder: Path, *hosts: str, **changed: str | None) -> dict[str, Any]:
    """A Secret as the API server has it; keys are changed, or left out with None."""
    issued = tls.issue(folder, *map(x509.DNSName, hosts or (f"*.{NAMESPACE}.svc.cluster.local",)))
    files = {"tls.crt": issued.chain, "tls.key": issued.key, "ca.crt": issued.authority}
    texts = {name: file.read_text() for name, file in files.items()}
    changes = {name.replace("_", "."): text for name, text in changed.items()}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in {**texts, **changes}.items() if text}
    return {"kind": "Secret", "metadata": {"name": "certs"}, "data": data}


def resolved(
    service: InferenceService, secret: dict[str, Any] | None, config: OperatorConfig | None = None, **surroundings: Any
) -> Resolved:
    context = StorageContext({}, objects={REFERENCE: secret})
    return a_resolved(service, a_runtime(metadata_annotations=READS), config, context, **surroundings)


def asking(**fields: Any) -> InferenceService:
    return a_service(annotations={ANNOTATION: "certs"}, **fields)


def with_transformer(**annotations: str) -> InferenceService:
    transformer = {"containers": [{"image": "t:1"}], "annotations": annotations}
    return asking(spec={"transformer": transformer})


READING = with_transformer(**{"isvc-operator.io/settings": "TLS_DIR"})


@pytest.mark.parametrize(
    ("annotations", "config", "secret"),
    [
        ({}, {}, None),
        ({ANNOTATION: "certs"}, {}, "certs"),
        ({ANNOTATION: "{{ .Name }}-tls"}, {}, "torchserve-tls"),
        ({}, {"tlsSecretName": "certs"}, "certs"),
        ({ANNOTATION: ""}, {"tlsSecretName": "certs"}, None),
    ],
    ids=["nobody asks", "the service", "by its name", "the administrator", "the service does not want it"],
)
def test_pods_serve_with_the_secret_that_is_asked_for(
    annotations: dict[str, str], config: dict[str, str], secret: str | None
) -> None:
    service, read = a_service(annotations=annotations), parse_config({"service": json.dumps(config)})
    found = a_resolved(service, a_runtime(metadata_annotations=READS), read)

    assert (found.tls.secret if found.tls else None) == secret
    assert found.predictor.tls is (secret is not None)


def test_the_administrator_may_take_the_choice_away() -> None:
    config = parse_config({"inferenceService": json.dumps({"serviceAnnotationDisallowedList": [ANNOTATION]})})

    assert a_resolved(asking(), a_runtime(metadata_annotations=READS), config).tls is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tls_crt": None}, "has no key tls.crt; add it"),
        ({"tls_crt": "text"}, "cannot be used: tls.crt is not a certificate in PEM"),
        ({"tls_key": "text"}, "cannot be used: tls.key is not a private key in PEM without a password"),
        ({"ca_crt": "text"}, "cannot be used: ca.crt is not a certificate in PEM"),
        ({"ca_crt": None}, "has no key ca.crt, the authority by which the transformer checks the predictor; add it"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named(tmp_path: Path, changed: dict[str, str | None], said: str) -> None:
    with pytest.raises(InvalidCertificate) as error:
        resolved(READING, a_secret(tmp_path, **changed))

    assert said in str(error.value)


def test_a_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    other = tls.issue(tmp_path / "other").key.read_text()

    with pytest.raises(InvalidCertificate, match=r"tls.key is not the key of the first certificate"):
        resolved(asking(), a_secret(tmp_path, tls_key=other))


def test_a_secret_without_an_authority_is_enough_where_nobody_calls_the_predictor(tmp_path: Path) -> None:
    assert resolved(asking(), a_secret(tmp_path, ca_crt=None)).tls


def test_nothing_is_asked_of_servers_of_a_run_on_a_laptop() -> None:
    assert a_resolved(asking(), tls=False).tls is None


def test_the_status_names_the_hosts_that_a_certificate_lacks(tmp_path: Path) -> None:
    found = resolved(READING, a_secret(tmp_path, "other.example")).tls
    assert found
    assert found.certificate
    (condition,) = certificate_problem(found, found.certificate.begins.strftime("%Y-%m-%dT%H:%M:%SZ"))

    assert (condition.reason, condition.status, condition.severity) == ("HostsMissing", "True", "Warning")
    assert f"torchserve-predictor.{NAMESPACE}, torchserve-transformer.{NAMESPACE}.svc" in (condition.message or "")
