"""Headless Services, switched on and off by an administrator, on a real API server, which does not let them change."""

from __future__ import annotations

from pathlib import Path

from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace
from tests.support.operator_process import operator
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
TEXT = "--output=jsonpath={.items[*].message}"


def test_a_service_keeps_the_form_that_it_was_made_with_and_ignored_settings_are_events(
    apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace, tmp_path: Path
) -> None:
    install_runtime(apiserver)
    headless, other = tmp_path / "headless", tmp_path / "other"
    for folder, value in ((headless, "true"), (other, "false")):
        folder.mkdir()
        (folder / "service").write_text(f'{{"serviceClusterIPNone": {value}}}')

    (headless / "router").write_text("{}")
    home = another_namespace.name

    with operator(apiserver, tmp_path / "first.log", f"--config-dir={headless}", f"--home={home}"):
        was_headless = made(namespace)
    with operator(apiserver, tmp_path / "second.log", f"--config-dir={other}"):
        had_an_address = made(another_namespace)
        roll(namespace)
    with operator(apiserver, tmp_path / "third.log", f"--config-dir={headless}"):
        roll(another_namespace)

    said = another_namespace.kubectl("get", "events", "--field-selector=reason=SettingsIgnored", TEXT)
    assert said == "Ignored: router (an InferenceGraph is not served)"
    assert (was_headless, form_of(namespace)) == (("None", ":8080"), ("None", ":8080"))
    assert had_an_address[0] != "None"
    assert had_an_address[1] == ""
    assert form_of(another_namespace) == had_an_address


def made(namespace: Namespace) -> tuple[str, str]:
    namespace.apply_story()
    namespace.wait_for_condition("Ready", "Unknown")
    return form_of(namespace)


def form_of(namespace: Namespace) -> tuple[str, str]:
    """The Service's address, and the port in that of the InferenceService."""
    service = namespace.wait_for("service", PREDICTOR)
    status = namespace.wait_for("inferenceservice", "torchserve")["status"]
    return service["spec"]["clusterIP"], status["address"]["url"].partition(".svc.cluster.local")[2]


def roll(namespace: Namespace) -> None:
    """Apply an edit, and wait until it has reached the pods and the status."""
    namespace.apply_story(labels={"rolled": "yes"})

    def rolled() -> bool:
        service, child = namespace.wait_for("inferenceservice", "torchserve"), namespace.wait_for("service", PREDICTOR)
        seen = service["status"]["observedGeneration"] == service["metadata"]["generation"]
        return seen and child["metadata"]["labels"].get("rolled") == "yes"

    eventually(rolled, "the edit has reached the Service")
    namespace.wait_for_condition("Ready", "Unknown")
