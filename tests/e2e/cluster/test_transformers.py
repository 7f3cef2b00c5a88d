"""The third story: a transformer, only `--model_name` given, on our SDK and on KServe's; and what happens around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from tests.e2e.cluster.services_page import ServicesPage
from tests.support.build_cache import sample
from tests.support.cluster import HTTP, Answer, curl
from tests.support.diagnose_output import assert_diagnosed, findings_on
from tests.support.namespace import Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
EXAMPLE, MNIST = ROOT / "examples" / "mnist_transformer", ROOT / "examples" / "mnist"
IMAGE = "localhost/isvc-operator/mnist-transformer"
OURS, KSERVES, TOGETHER = "mnist-pictures", "mnist-pictures-kserve", "mnist-together"
SEVEN = {"predictions": [{"digit": 7}]}
READY_WITHIN = 180.0  # seconds
CALLERS = 4


@pytest.fixture(scope="module")
def services(namespace: Namespace) -> Iterator[Namespace]:
    """The example on both SDKs, and in one pod with its predictor; all are Ready."""
    with Volume(namespace, "mnist").filled_from(sample("mnist")):
        namespace.apply(the_example(OURS), on_kserves_sdk(), in_one_pod())
        for name in (OURS, KSERVES, TOGETHER):
            namespace.wait_for_condition("Ready", "True", service=name, within=READY_WITHIN)
            eventually(partial(answers, namespace, name), f"the ingress leads to {name}")
        yield namespace


def the_example(name: str, *args: str) -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load((EXAMPLE / "inferenceservice.yaml").read_text())
    service["metadata"]["name"] = name
    container_of(service)["args"].extend(args)
    return service


def container_of(service: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = service["spec"]["transformer"]["containers"][0]
    return container


def on_kserves_sdk() -> dict[str, Any]:
    service = the_example(KSERVES)
    container = container_of(service)
    container["image"] = container["image"].replace(IMAGE, f"{IMAGE}-kserve")
    return service


def in_one_pod() -> dict[str, Any]:
    """Collocation: they share a network, so the transformer has other ports than the server."""
    service = the_example(TOGETHER, "--http_port=8000", "--grpc_port=8001", "--predictor_host=localhost:8080")
    container = container_of(service)
    container |= {"name": "transformer-container", "ports": [{"containerPort": 8000, "protocol": "TCP"}]}
    del service["spec"]["transformer"]
    service["spec"]["predictor"]["containers"] = [container]
    return service


def ask(namespace: Namespace, name: str, body: Path = EXAMPLE / "sample.json", path: str = "mnist:predict") -> Answer:
    host = f"{name}.{namespace.name}.example.com"
    return curl("-X", "POST", "-H", f"Host: {host}", f"{HTTP}/v1/models/{path}", "-T", str(body))


def answers(namespace: Namespace, name: str) -> bool:
    return ask(namespace, name).status == 200


# --- predictions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [OURS, KSERVES, TOGETHER])
def test_a_picture_gets_its_digit(services: Namespace, name: str) -> None:
    answer = ask(services, name)

    assert (answer.status, answer.json) == (200, SEVEN)


def test_the_predictors_own_host_leads_past_the_transformer(services: Namespace) -> None:
    answer = ask(services, f"{OURS}-predictor", MNIST / "sample.json")

    assert (answer.status, answer.json) == (200, {"predictions": [7]})


def test_the_status_shows_both_components(services: Namespace) -> None:
    status = (services.find("inferenceservice", OURS) or {})["status"]

    assert status["address"] == {"url": f"http://{OURS}-transformer.{services.name}.svc.cluster.local"}
    assert sorted(status["components"]) == ["predictor", "transformer"]
    assert services.condition("TransformerReady", OURS)["status"] == "True"


def test_what_is_to_be_explained_goes_to_the_explainer_and_the_rest_to_a_predictor_of_own_containers(
    namespace: Namespace,
) -> None:
    """Both are the example without a predictor, so each answer tells who was asked."""
    predictor, explainer = (container_of(the_example("reasons")) for _ in range(2))
    predictor |= {
        "args": ["--model_name=own", "--http_port=9000"],
        "ports": [{"containerPort": 9000, "protocol": "TCP"}],
    }
    explainer |= {"args": ["--model_name=other"]}
    service = the_example("reasons")
    service["spec"] = {"predictor": {"containers": [predictor]}, "explainer": {"containers": [explainer]}}
    namespace.apply(service)
    namespace.wait_for_condition("Ready", "True", service="reasons", within=READY_WITHIN)
    sample = EXAMPLE / "sample.json"
    eventually(
        lambda: ask(namespace, "reasons", sample, "own:predict").text.startswith("{"), "the ingress has the route"
    )

    own, other = (ask(namespace, "reasons", sample, path).json for path in ("own:explain", "other:explain"))

    assert own["component"] == "server"
    assert other["component"].startswith("predictor")  # only the explainer has one to ask


# --- the predictor comes and goes --------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["predictor", "transformer"])
def test_a_component_is_rolled_under_load_and_no_request_fails(services: Namespace, component: str) -> None:
    done = Event()

    def call() -> list[Answer]:
        answers = []
        while not done.is_set():
            answers.append(ask(services, OURS))
        return answers

    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(call) for _ in range(CALLERS)]
        try:
            roll(services, component)
        finally:
            done.set()
    answers = [answer for made in calls for answer in made.result()]

    assert len(answers) > CALLERS
    assert [answer for answer in answers if answer.status != 200 or answer.json != SEVEN] == []


def roll(namespace: Namespace, component: str) -> None:
    """Another pod template, until the new pod has taken the place of the old one."""
    patch = {"spec": {component: {"annotations": {"rolled": "yes"}}}}
    before = pods(namespace, component)
    namespace.kubectl("patch", "inferenceservice", OURS, "--type=merge", f"--patch={json.dumps(patch)}")

    def replaced() -> bool:
        now = pods(namespace, component)
        return len(now) == 1 and not now & before

    eventually(replaced, f"the {component} has another pod", READY_WITHIN, lambda: described(namespace, OURS))


def pods(namespace: Namespace, component: str) -> set[str]:
    selector = f"--selector=app=isvc.{OURS}-{component}"
    items = json.loads(namespace.kubectl("get", "pods", selector, "--output=json"))["items"]
    return {item["metadata"]["name"] for item in items}


def test_while_the_predictor_is_down_the_answer_names_it(services: Namespace) -> None:
    services.kubectl("scale", "deployment", f"{OURS}-predictor", "--replicas=0")
    eventually(lambda: not pods(services, "predictor"), "the predictor is gone", within=180)

    answer = ask(services, OURS)
    found = findings_on(services, OURS, fails=False)[0]
    services.kubectl("scale", "deployment", f"{OURS}-predictor", "--replicas=1")
    # The service is Ready without a pod, too, when it was scaled to zero: an answer tells that there is one again.
    eventually(lambda: answers(services, OURS), "the predictor answers again", READY_WITHIN)

    assert (answer.status, answer.json["component"]) == (503, "predictor")
    assert f"{OURS}-predictor.{services.name}" in answer.json["error"]
    assert (found["reason"], found["cause"]) == (
        "ScaledToZero",
        f"the predictor {OURS}-predictor is scaled to zero: it has no pod that serves requests",
    )


# --- a predictor that is not there -------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--enable_predictor_health_check",)], ids=["no flag", "the health check"])
def test_a_wrong_predictor_host_is_told_with_the_address_that_was_tried(
    services: Namespace, page: ServicesPage, flags: Any
) -> None:
    name = f"lost-{len(flags)}"
    services.apply(the_example(name, "--predictor_host=nowhere.to-be-found", *flags))

    def told(type_: str) -> bool:
        return "nowhere.to-be-found" in services.condition(type_, name).get("message", "")

    eventually(
        lambda: told("TransformerReady"), "the condition names the address", 60, lambda: described(services, name)
    )
    # While the predictor starts, too, Ready is about that.
    eventually(lambda: told("Ready"), "so does Ready", READY_WITHIN, lambda: described(services, name))

    cause = "The predictor at http://nowhere.to-be-found:80 cannot be reached"
    assert services.condition("Ready", name)["status"] != "True"
    assert cause in described(services, name)
    assert_diagnosed(services, name, "StartingServer", cause)
    page.shows(name, "StartingServer", cause)


def described(namespace: Namespace, name: str) -> str:
    return " ".join(namespace.kubectl("describe", "isvc", name).split())
