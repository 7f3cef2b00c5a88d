"""``isvc run`` with a payload logger: from the service's YAML to the events that the sink gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cloudevents.http import CloudEvent

from tests.support.event_sinks import Sink
from tests.support.isvc_process import Sandbox, read_until, stop
from tests.support.local_services import runtime, service, write_yaml
from tests.support.waiting import eventually

PROGRAM = Path(__file__).parents[2] / "support" / "logging_transformer.py"
HOST = "first.default.example.com"


def logged_by_its_transformer(url: str) -> dict[str, Any]:
    body = service()
    body["metadata"]["annotations"] = {"team": "a"}
    body["spec"]["transformer"] = {
        "annotations": {"isvc-operator.io/settings": "PAYLOAD_LOGGER"},
        "logger": {"mode": "all", "url": url, "metadataAnnotations": ["team"]},
        "containers": [{"image": "unused", "command": ["python", str(PROGRAM)], "args": ["--model_name=fake"]}],
    }
    return body


def test_a_transformer_sends_what_its_service_asks_for(sandbox: Sandbox) -> None:
    with Sink() as sink:
        file = write_yaml(sandbox.folder / "services.yaml", logged_by_its_transformer(sink.url), runtime())
        with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}") as process:
            read_until(process.stdout, "Ctrl-C stops it.")
            status, answer = sandbox.ask(HOST, "/v1/models/fake:predict", {"instances": [1]})
            eventually(lambda: len(sink.events) == 2, "both payloads have arrived")
            stop(process)

    def common(event: CloudEvent) -> dict[str, Any]:
        names = ("inferenceservicename", "namespace", "component", "annotations")
        return {name: event[name] for name in names}

    assert status == 200
    assert [(kind, json.loads(data)) for kind, _, data in sink.told()] == [
        ("request", {"instances": [1]}),
        ("response", answer),
    ]
    assert [common(one) for one in sink.events] == [
        {
            "inferenceservicename": "first",
            "namespace": "default",
            "component": "transformer",
            "annotations": '{"team":"a"}',
        }
    ] * 2
