"""The story of the first user: a claim with a .mar archive, fourteen lines of YAML, a prediction by curl."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from data_plane.limits import MAX_REQUEST
from isvc.api_server import connect
from isvc.commands import main
from isvc.source.source import cluster_source
from isvc.view.source import ServiceRequest
from isvc_operator.manifests import ServiceKey
from tests.support.cluster import HTTP, Answer, RealCluster, curl
from tests.support.isvc_process import on_cluster
from tests.support.namespace import STORY, Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

SAMPLE = STORY.parent / "sample.json"
PREDICTOR = "torchserve-predictor"
PREDICT = "/v1/models/bert:predict"
OPERATOR = ("--namespace=isvc-system",)


@pytest.fixture(scope="module")
def story(namespace: Namespace, leeway: Volume) -> Namespace:
    """The story's service, applied from its own file and Ready."""
    namespace.kubectl("apply", "--filename", str(STORY))
    namespace.kubectl("wait", "--for=condition=Ready", "inferenceservice/torchserve", "--timeout=120s")
    eventually(lambda: ask(namespace, SAMPLE).status == 200, "the ingress has the route")
    return namespace


def host(namespace: Namespace) -> str:
    return f"torchserve.{namespace.name}.example.com"


def ask(namespace: Namespace, body: Path, path: str = PREDICT, host_name: str | None = None) -> Answer:
    """The story's curl: Host header, session cookie, a file by -T and so no Content-Type."""
    header = f"Host: {host_name or host(namespace)}"
    return curl("-X", "POST", "-H", header, "-H", "Cookie: authservice_session=abc", f"{HTTP}{path}", "-T", str(body))


def ask_with(namespace: Namespace, tmp_path: Path, body: str | bytes, path: str = PREDICT) -> Answer:
    file = tmp_path / "body"
    file.write_bytes(body.encode() if isinstance(body, str) else body)
    return ask(namespace, file, path)


def instances(*texts: Any) -> str:
    return json.dumps({"instances": [{"data": text} for text in texts]})


# --- predictions -------------------------------------------------------------------------------------


def test_the_storys_curl_gets_the_right_class(story: Namespace) -> None:
    answer = ask(story, SAMPLE)
    assert (answer.status, answer.json) == (200, {"predictions": [4]})


@pytest.mark.parametrize("way", ["--port-forward", f"--address={HTTP.removeprefix('http://')}"])
def test_isvc_predict_gets_it_through_the_api_server_and_by_the_ingress(
    story: Namespace, cluster: RealCluster, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["torchserve", "-d", f"@{SAMPLE}", way, f"--kubeconfig={cluster.kubeconfig}", "-n", story.name]

    assert main(["predict", *arguments]) == 0, capsys.readouterr().err

    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"predictions": [4]}
    assert ": queue " in printed.err


def test_isvc_diff_and_doctor_find_nothing_to_do(
    story: Namespace, cluster: RealCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [f"--kubeconfig={cluster.kubeconfig}", "-n", story.name]

    assert main(["diff", str(STORY), *where]) == 0, capsys.readouterr().out

    main(["doctor", *where, "-o", "json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [item for item in checks if item["verdict"] == "problem"] == []


def test_two_instances_get_two_predictions_in_order(story: Namespace, tmp_path: Path) -> None:
    one_way = ask_with(story, tmp_path, instances("Hello World!", "This is terrible and I want my money back."))
    the_other = ask_with(story, tmp_path, instances("This is terrible and I want my money back.", "Hello World!"))
    assert one_way.json["predictions"][0] == 4
    assert one_way.json["predictions"][1] != 4
    assert the_other.json["predictions"] == one_way.json["predictions"][::-1]


@pytest.mark.parametrize("form", ["torchserve-{}.example.com", f"{PREDICTOR}.{{}}.example.com"])
def test_the_other_host_names_lead_there_too(story: Namespace, form: str) -> None:
    assert ask(story, SAMPLE, host_name=form.format(story.name)).status == 200


def test_another_host_leads_nowhere_and_those_that_the_ingress_lists_lead_there(story: Namespace) -> None:
    rules = json.loads(story.kubectl("get", "ingress", "torchserve", "--output=json"))["spec"]["rules"]

    assert ask(story, SAMPLE, host_name=f"torchserv.{story.name}.example.com").status == 404
    assert {ask(story, SAMPLE, host_name=rule["host"]).status for rule in rules} == {200}


def test_the_services_name_is_an_alias_of_its_only_model(story: Namespace) -> None:
    assert ask(story, SAMPLE, "/v1/models/torchserve:predict").json == {"predictions": [4]}


def test_the_model_is_listed_by_the_name_in_its_config(story: Namespace) -> None:
    answer = curl("-H", f"Host: {host(story)}", f"{HTTP}/v1/models")
    assert (answer.status, answer.json) == (200, {"models": ["bert"]})


# --- bad requests: each with its code and a message that says what was wrong ----------------------------


@pytest.mark.parametrize(
    ("body", "path", "status", "words"),
    [
        ('{"instances": [', PREDICT, 400, "JSON"),
        ('{"data": "Hello"}', PREDICT, 400, "instances"),
        ('{"instances": "Hello"}', PREDICT, 400, "list"),
        ("", PREDICT, 400, "empty"),
        (instances("Hello"), "/v1/models/no-such-model:predict", 404, "no-such-model"),
        (instances("x" * MAX_REQUEST), PREDICT, 413, str(MAX_REQUEST)),
        (instances(5), PREDICT, 500, "instance 0 holds no text"),
    ],
    ids=["invalid JSON", "no instances", "no list", "empty", "unknown model", "too large", "raising handler"],
)
def test_a_bad_request_is_told_what_is_wrong(
    story: Namespace, tmp_path: Path, body: str, path: str, status: int, words: str
) -> None:
    answer = ask_with(story, tmp_path, body, path)
    assert answer.status == status, answer.text
    assert words in answer.json["error"]
    assert ask(story, SAMPLE).json == {"predictions": [4]}  # and the next request works


# --- what is seen of it ------------------------------------------------------------------------------


def test_isvc_shows_the_service_its_failed_requests_and_its_logs(story: Namespace, tmp_path: Path) -> None:
    pod = the_pod(story)["metadata"]["name"]
    assert ask_with(story, tmp_path, instances(5), PREDICT).status == 500
    done = on_cluster(story, "diagnose", "torchserve", "--output=json")
    diagnosis = json.loads(done.stdout)
    (finding,) = diagnosis["findings"]
    assert (done.returncode, diagnosis["health"], finding["reason"]) == (0, "Ready", "RequestsFail")
    assert "answered 500: " in finding["log"]
    assert "instance 0 holds no text" in finding["log"]
    assert re.fullmatch(r"\d+ of \d+ requests have failed since .*: \d+ with HTTP 500.*", finding["cause"])

    seen = json.loads(on_cluster(story, "status", "torchserve", "--output=json").stdout)
    assert (seen["health"], seen["requestPath"][0]["kind"], seen["components"][0]["traffic"]) == (
        "Ready",
        "Ingress",
        100,
    )
    assert (
        seen["runtime"]["why"].startswith("serves model format 'pytorch'") or "only runtime" in seen["runtime"]["why"]
    )
    told = [(item["about"], item["reason"]) for item in seen["history"]]
    steps = [
        ("InferenceService/torchserve", "Created"),
        (f"Pod/{pod}", "Scheduled"),
        (f"Pod/{pod} storage-initializer", "Started"),
        (f"Pod/{pod} storage-initializer", "Completed"),
        (f"Pod/{pod} kserve-container", "Started"),
        (f"Pod/{pod}", "Ready"),
        ("InferenceService/torchserve", "Ready"),
    ]
    assert [step for step in told if step in steps] == steps

    logs = on_cluster(story, "logs", "torchserve", "--tail=1000").stdout.splitlines()
    copied = [number for number, line in enumerate(logs) if line.startswith(f"{pod} storage-initializer | ")]
    served = [number for number, line in enumerate(logs) if line.startswith(f"{pod} kserve-container | ")]
    assert copied[-1] < served[0]


async def test_requests_and_metrics_go_through_the_api_server(story: Namespace, cluster: RealCluster) -> None:
    key = ServiceKey(story.name, "torchserve")
    sent = ServiceRequest(method="POST", path=PREDICT, body=SAMPLE.read_bytes())
    async with connect(str(cluster.kubeconfig)) as api, cluster_source(api, [story.name]) as source:
        response = await source.send(key, sent)
        metrics = await source.metrics(key, the_pod(story)["metadata"]["name"])
    assert (response.status, json.loads(response.body)) == (200, {"predictions": [4]})
    assert "# TYPE" in metrics


# --- life --------------------------------------------------------------------------------------------


def test_the_pods_log_tells_what_was_copied_and_served(story: Namespace) -> None:
    pod = the_pod(story)["metadata"]["name"]
    copying = story.kubectl("logs", pod, "--container=storage-initializer")
    assert "bert-model.mar" in copying
    serving = story.kubectl("logs", pod, "--container=kserve-container")
    assert "model bert is ready" in serving


def test_a_child_edited_by_hand_comes_back_without_a_new_pod(story: Namespace) -> None:
    before = the_pod(story)["metadata"]["uid"]
    story.kubectl("patch", "service", PREDICTOR, "--type=merge", '--patch={"spec": {"selector": {"app": "nobody"}}}')
    story.kubectl("delete", "ingress", "torchserve")
    eventually(lambda: story.find("ingress", "torchserve"), "the Ingress is back")
    eventually(lambda: ask(story, SAMPLE).status == 200, "the service answers again", within=60)
    assert the_pod(story)["metadata"]["uid"] == before


def test_an_operator_restart_changes_no_pod(cluster: RealCluster, story: Namespace) -> None:
    before = objects(story)
    cluster.kubectl("rollout", "restart", "deployment/isvc-operator", *OPERATOR)
    cluster.kubectl("rollout", "status", "deployment/isvc-operator", "--timeout=120s", *OPERATOR)
    # The new operator is at work when it restores something; by then it has looked at everything.
    story.kubectl("delete", "ingress", "torchserve")
    eventually(lambda: story.find("ingress", "torchserve"), "the Ingress is back", within=60)
    assert objects(story) == before


def test_a_change_of_the_spec_rolls_and_still_answers(story: Namespace) -> None:
    before = the_pod(story)["metadata"]["uid"]
    env = [{"name": "GREETING", "value": "hello"}]
    patch = json.dumps({"spec": {"predictor": {"model": {"env": env}}}})
    story.kubectl("patch", "inferenceservice", "torchserve", "--type=merge", f"--patch={patch}")
    service = story.find("inferenceservice", "torchserve") or {}
    generation = service["metadata"]["generation"]

    def rolled_out() -> bool:
        status = (story.find("inferenceservice", "torchserve") or {})["status"]
        return status["observedGeneration"] == generation and story.condition("Ready")["status"] == "True"

    eventually(rolled_out, "the new generation is Ready", within=180)
    pod = eventually(lambda: only_pod(story), "the old pod is gone", within=60)
    assert pod["metadata"]["uid"] != before
    assert env[0] in pod["spec"]["containers"][0]["env"]
    assert ask(story, SAMPLE).json == {"predictions": [4]}


def test_a_deleted_service_leaves_nothing(story: Namespace) -> None:
    story.kubectl("delete", "inferenceservice", "torchserve", "--timeout=60s")

    def gone() -> bool:
        kinds = "deployments,replicasets,services,ingresses,pods"
        return json.loads(story.kubectl("get", kinds, "--output=json"))["items"] == []

    eventually(gone, "every child is gone", within=180)


def the_pod(namespace: Namespace) -> dict[str, Any]:
    return eventually(lambda: only_pod(namespace), "there is one pod", within=60)


def only_pod(namespace: Namespace) -> dict[str, Any] | None:
    selector = f"--selector=app=isvc.{PREDICTOR}"
    pods = json.loads(namespace.kubectl("get", "pods", selector, "--output=json"))["items"]
    return pods[0] if len(pods) == 1 else None


def objects(namespace: Namespace) -> dict[str, tuple[str, int | None]]:
    """Identity and generation of the pod, its Deployment and its Service."""
    found = json.loads(namespace.kubectl("get", "deployments,services,pods", "--output=json"))["items"]
    return {
        f"{item['kind']}/{item['metadata']['name']}": (item["metadata"]["uid"], item["metadata"].get("generation"))
        for item in found
    }
