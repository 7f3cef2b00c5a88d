"""What each command prints for programs, whole: fields may be added to these documents, and none is renamed or removed.

`isvc doctor`, `diff` and `migrate plan` ask a real API server: tests/integration/cli/test_output.py has theirs.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
import yaml

from isvc.bench.load import Responses
from isvc.commands import main
from isvc.commands.cluster import ClusterFlags
from isvc.migrate import changeover
from isvc.migrate.session import Session, Step, StepTaken
from isvc_operator import __version__
from tests.support.builders import a_deployment, a_pod, an_initializer, ended
from tests.support.fake_source import FakeSource
from tests.support.fakes import FakeKubeApi
from tests.support.local_services import runtime, service, write_yaml
from tests.support.model_folder import STORY_CONFIG, write_volume
from tests.support.output_goldens import OutputGoldens
from tests.support.related_objects import a_related, an_event
from tests.support.scripted_server import Visitor, scripted

POD = "torchserve-predictor-1-a"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    """The services of the namespace `models`, which commands see in place of a cluster's."""
    played = FakeSource(a_related(events=[an_event("Pulled", "the image is present")]))

    @asynccontextmanager
    async def services_of(_: ClusterFlags, **__: Any) -> AsyncIterator[tuple[FakeSource, str]]:
        yield played, "models"

    monkeypatch.setattr("isvc.commands.seen.reading.services_of", services_of)
    return played


@pytest.mark.usefixtures("source")
def test_status_prints_all_services(goldens: OutputGoldens) -> None:
    goldens.check("status", 0, "status")


@pytest.mark.usefixtures("source")
def test_status_prints_one_service(goldens: OutputGoldens) -> None:
    goldens.check("status-name", 0, "status", "torchserve")


def test_status_of_no_service_is_an_empty_list(goldens: OutputGoldens, source: FakeSource) -> None:
    source.services.clear()

    goldens.check("status-none", 0, "status")


def test_diagnose_prints_each_finding(goldens: OutputGoldens, source: FakeSource) -> None:
    failed = a_pod(initializer=an_initializer(ended(5, "there is no model-store in pvc://leeway")))
    event = an_event("BackOff", "restarting failed container", type_="Warning")
    source.put(a_related(failed, deployment=a_deployment(available=0), events=[event]))

    goldens.check("diagnose", 1, "diagnose", "torchserve")


def test_logs_prints_an_object_in_each_line(
    goldens: OutputGoldens, source: FakeSource, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write(POD, "storage-initializer", "copied bert-model.mar", at="2026-01-01T12:00:00.000Z")
    source.write(POD, "kserve-container", "serving", at="2026-01-01T12:00:01.000Z")

    assert main(["logs", "torchserve", "--output=json"]) == 0

    lines = capsys.readouterr().out
    goldens.compare("logs", lines, {})
    assert main(["logs", "torchserve", "--output=yaml"]) == 0
    assert [*yaml.safe_load_all(capsys.readouterr().out)] == [*map(json.loads, lines.splitlines())]


def test_validate_prints_each_finding(goldens: OutputGoldens, tmp_path: Path) -> None:
    refused, ignored = service("refused"), service("ignored")
    refused["spec"]["predictor"]["minReplicas"] = -1
    ignored["spec"]["predictor"]["minReplica"] = 2
    file = write_yaml(tmp_path / "services.yaml", refused, ignored, runtime())

    goldens.check("validate", 2, "validate", str(file), changed={f"{tmp_path}/": ""})


def test_validate_of_a_good_file_prints_an_empty_list(goldens: OutputGoldens, tmp_path: Path) -> None:
    goldens.check("validate-good", 0, "validate", str(write_yaml(tmp_path / "s.yaml", service(), runtime())))


def test_render_prints_a_list(goldens: OutputGoldens, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its YAML is not the list, but its items: tests/unit/cli/test_output_shapes.py compares them."""
    given = runtime(command=["server"])

    assert main(["render", str(write_yaml(tmp_path / "s.yaml", service(), given)), "--output=json"]) == 0

    goldens.compare("render", capsys.readouterr().out, {f":{__version__}": ":0.2.0"})


def test_pack_prints_what_is_in_the_archive(
    goldens: OutputGoldens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net/.git").mkdir(parents=True)
    (tmp_path / "net/.git/HEAD").write_text("ref: main\n")
    (tmp_path / "net/handler.py").write_text("def handle(data, context):\n    return data\n")
    (tmp_path / "net/weights.pt").write_bytes(bytes(8))

    goldens.check("pack", 0, "pack", "net", "--force", "--archive-format=zip-store")


@pytest.mark.process
def test_inspect_prints_models_and_problems(
    goldens: OutputGoldens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (write_volume(tmp_path / "volume", STORY_CONFIG) / "model-store/empty.mar").write_bytes(b"")

    goldens.check("inspect", 1, "inspect", "volume")


async def test_predict_prints_the_answer_and_the_time(goldens: OutputGoldens) -> None:
    async def model(visitor: Visitor) -> None:
        while True:
            asked = await visitor.request()
            content = b'{"predictions": [4]}' if asked.startswith(b"POST") else b'{"models": ["bert"]}'
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nserver-timing: queue;dur=0.001\r\n"
            await visitor.say(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(content), content))

    async with scripted(model) as server:
        command = ("predict", "bert", "-d", '{"instances": [1]}', f"--url=http://{server.host}")
        await asyncio.to_thread(goldens.check, "predict", 0, *command)


def test_bench_prints_what_was_measured(goldens: OutputGoldens, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Responses(
        latencies=array("d", [0.010, 0.011, 0.012, 0.040]),
        statuses=Counter({200: 3, 503: 1}),
        refusals={503: b'{"error": "no worker"}'},
        errors=Counter({"connection refused": 1}),
        seconds=1,
    )
    monkeypatch.setattr("isvc.bench.load.load", AsyncMock(return_value=seen))

    goldens.check("bench", 1, "bench", "http://127.0.0.1:8080/v1/models/bert:predict", "-d", "{}")


@pytest.mark.parametrize(
    "command",
    [
        ["status", "--history"],
        ["diagnose", "Bert"],
        ["logs", "bert", "-f", "-p"],
        ["validate", "absent.yaml"],
        ["render", "absent.yaml"],
        ["diff", "absent.yaml"],
        ["doctor", "--kubeconfig=absent"],
        ["predict", "bert", "-d", "{"],
        ["bench", "ftp://h"],
        ["inspect", "absent"],
        ["pack", "absent"],
        ["migrate", "plan", "--manifests=absent", "--kubeconfig=absent"],
    ],
    ids=" ".join,
)
def test_an_error_is_a_line_on_stderr_and_no_document(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main([*command, "--output=json"]) == 2

    printed = capsys.readouterr()
    assert (printed.out, printed.err.startswith("isvc: ")) == ("", True)


def test_new_prints_the_files(
    goldens: OutputGoldens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["new", "transformer", "digits", "--output=json"]) == 0

    goldens.compare("new", capsys.readouterr().out, {})


def test_a_migration_prints_an_object_for_each_step(
    goldens: OutputGoldens, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def back(session: Session) -> None:
        session.report(StepTaken(Step.KSERVE_RESUMED, "KServe's controllers run again"))
        session.report(StepTaken(Step.SERVICE_GIVEN_BACK, "models/bert is back with KServe", ["models/bert"]))

    @asynccontextmanager
    async def connect(_: ClusterFlags) -> AsyncIterator[tuple[FakeKubeApi, str]]:
        yield FakeKubeApi(), "models"

    monkeypatch.setattr(changeover, "back", back)
    monkeypatch.setattr(ClusterFlags, "connect", connect)
    monkeypatch.setattr("isvc.commands.migrate._now", lambda: "2026-01-01T12:00:00.000000Z")

    assert main(["migrate", "back", "--output=json"]) == 0

    lines = capsys.readouterr().out
    goldens.compare("migrate-back", lines, {})
    assert main(["migrate", "back", "--output=yaml"]) == 0
    assert [*yaml.safe_load_all(capsys.readouterr().out)] == [*map(json.loads, lines.splitlines())]
