"""``isvc run --watch``: a change rolls the pods without losing a request; what cannot be used changes nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.isvc_process import Sandbox, is_running, read_until, stop
from tests.support.local_services import runtime, service, write_yaml
from tests.support.waiting import eventually

HOST = "first.default.example.com"
PREDICT = "/v1/models/fake:predict"
TRANSFORMER = Path(__file__).parents[2] / "support" / "fake_transformer.py"


@contextmanager
def asking(sandbox: Sandbox, clients: int = 4) -> Iterator[list[tuple[int, Any]]]:
    """Clients that ask one request after another; their answers."""
    answers: list[tuple[int, Any]] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                answers.append(sandbox.ask(HOST, PREDICT, {"instances": [1]}))
            except OSError as error:
                answers.append((0, {"error": str(error)}))

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def replaced(answers: list[tuple[int, Any]], before: object, field: str = "pid") -> bool:
    """Whether the last answers are all those of another pod."""
    return len(answers) > 20 and all(answer.get(field) not in (None, before) for _, answer in answers[-10:])


def with_variable(value: str, **predictor: Any) -> dict[str, Any]:
    body = service(env={"VERSION": value, "SLOW": "0.02"})
    body["spec"]["predictor"] |= predictor
    return body


def test_changes_reach_the_pods_and_no_request_is_lost(sandbox: Sandbox) -> None:
    """The YAML, then the model, then a YAML that is not valid, then one whose pods fail, then a good one again."""
    file = write_yaml(sandbox.folder / "services.yaml", with_variable("1"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox) as answers:
            _, first = sandbox.ask(HOST, PREDICT, {"instances": [1]})

            write_yaml(file, with_variable("2"), runtime())
            eventually(lambda: replaced(answers, first["pid"]), "another pod answers")
            assert not is_running(first["pid"])

            second = answers[-1][1]
            (sandbox.folder / "models/weights").write_text("4 5 6")
            eventually(
                lambda: replaced(answers, "1 2 3", "has") and answers[-1][1]["has"] == ["4 5 6"], "the new model"
            )
            third = answers[-1][1]

            file.write_text("spec: [")
            log = read_until(process.stderr, "the services run on as they are")
            write_yaml(file, service(env={"FAIL": "not so"}), runtime())
            log += read_until(process.stderr, "failed (exit code 3): not so")
            assert sandbox.ask(HOST, PREDICT, {"instances": [1]})[1]["pid"] == third["pid"]

            write_yaml(file, with_variable("3"), runtime())
            eventually(lambda: replaced(answers, third["pid"]), "another pod answers")
        stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}
    assert len({answer["pid"] for _, answer in answers}) == 4
    assert second["pid"] not in (first["pid"], third["pid"])
    assert f"{file}:1:8: this is not YAML" in log
    assert f"{file} has changed" in log
    assert process.returncode == 0
    assert list(sandbox.temporary.iterdir()) == []


def test_a_component_that_comes_or_goes_takes_over_without_losing_a_request(sandbox: Sandbox) -> None:
    container = {"image": "unused", "command": ["python", str(TRANSFORMER)], "args": ["--model_name=fake"]}
    wrapped = service()
    wrapped["spec"]["transformer"] = {"containers": [container]}
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox, clients=2) as answers:
            write_yaml(file, wrapped, runtime())
            eventually(lambda: replaced(answers, None, "transformed"), "the transformer answers")
            write_yaml(file, service(), runtime())
            eventually(lambda: replaced(answers, None, "pid"), "the predictor answers")
        stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}


def test_a_service_that_is_added_is_served_and_one_that_is_removed_is_not(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service("first"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        write_yaml(file, service("second"), runtime())
        read_until(process.stdout, "second is served")
        status, _ = sandbox.ask("second.default.example.com", PREDICT, {"instances": [1]})
        gone, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        stop(process)

    assert (status, gone) == (200, 404)
    assert "no service has the host 'first.default.example.com'" in answer["error"]


def test_watching_and_one_request_exclude_each_other(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    done = sandbox.run(file, "--watch", "--request", sandbox.folder / "request.json")

    assert (done.returncode, done.stderr) == (
        2,
        "isvc: --watch and --request cannot be used together; leave out one of them\n",
    )
