"""What the suites `scale` and `soak` conclude from the API server's audit log and from a profile."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.scale.calls import Calls
from tests.bench.scale.causes import Causes
from tests.bench.scale.following import Following
from tests.bench.scale.profile import summary

OURS = "isvc-operator"


def a_line(second: float, verb: str, resource: str, *, by: str = "kubectl", code: int = 200, **target: str) -> Any:
    time = datetime.fromtimestamp(1_800_000_000 + second, UTC).isoformat()
    return {
        "stage": "ResponseComplete", "verb": verb, "userAgent": by, "requestURI": target.pop("uri", "/?force=true"),
        "requestReceivedTimestamp": time, "stageTimestamp": time, "responseStatus": {"code": code},
        "objectRef": {"namespace": "team", "resource": resource, "name": "model", **target},
    }  # fmt: skip


def without_cause(*lines: Any) -> int:
    causes = Causes(OURS)
    causes.read(lines)
    causes.end()
    return len(causes.without)


CREATED = a_line(0, "create", "inferenceservices")
APPLIED = a_line(1, "patch", "deployments", by=OURS)


def test_a_change_is_the_cause_of_a_write_to_each_object() -> None:
    assert without_cause(CREATED, APPLIED, a_line(1, "patch", "services", by=OURS)) == 0


def test_the_same_object_is_not_written_twice_for_one_change() -> None:
    assert without_cause(CREATED, APPLIED, a_line(2, "patch", "deployments", by=OURS)) == 1


def test_the_first_change_of_a_child_takes_two_writes_once() -> None:
    adopted = a_line(1, "patch", "deployments", by=OURS, uri="/")
    again = a_line(2, "patch", "deployments", by=OURS, uri="/")
    applied = a_line(3, "patch", "deployments", by=OURS)

    assert without_cause(CREATED, adopted, applied) == 0
    assert without_cause(CREATED, adopted, again, applied) == 1
    assert without_cause(adopted) == 1


def test_a_second_change_is_the_cause_of_a_second_write() -> None:
    changed = a_line(2, "patch", "pods", subresource="status")
    assert without_cause(CREATED, changed, a_line(3, "patch", "deployments", by=OURS), APPLIED) == 0


def test_a_change_of_another_namespace_is_no_cause() -> None:
    assert without_cause(a_line(0, "create", "inferenceservices", namespace="other"), APPLIED) == 1


def test_a_change_of_what_is_not_watched_is_no_cause() -> None:
    assert without_cause(a_line(0, "create", "replicasets"), APPLIED) == 1


def test_a_change_that_was_refused_or_tried_is_no_cause() -> None:
    refused = a_line(0, "update", "inferenceservices", code=409)
    tried = a_line(0, "update", "inferenceservices", uri="/?dryRun=All")
    assert without_cause(refused, tried, APPLIED) == 1


def test_a_change_of_long_ago_is_no_cause() -> None:
    assert without_cause(CREATED, a_line(31, "patch", "deployments", by=OURS)) == 1


def test_a_refused_write_leaves_its_cause_for_the_next_try() -> None:
    refused = a_line(1, "patch", "deployments", by=OURS, code=409)
    assert without_cause(CREATED, refused, a_line(2, "patch", "deployments", by=OURS)) == 0


def test_a_change_that_is_answered_after_the_write_is_its_cause() -> None:
    assert without_cause(APPLIED, CREATED) == 0


def test_calls_are_counted_by_verb_and_children_by_the_answer_that_they_exist() -> None:
    calls = Calls((OURS, "isvc-watches"))
    made = [a_line(at, "patch", kind, by=OURS, code=201) for at, kind in ((1, "deployments"), (2, "services"))]
    received = [{**line, "stage": "RequestReceived"} for line in made]
    tried = a_line(3, "patch", "deployments", by=OURS, uri="/?dryRun=All")
    found = {"stage": "RequestReceived", "verb": "get", "userAgent": "isvc-watches", "requestURI": "/apis",
             "stageTimestamp": tried["stageTimestamp"]}  # fmt: skip
    lease = a_line(4, "update", "leases", by=OURS)
    calls.read([*received, *made, {**tried, "stage": "RequestReceived"}, found, {**lease, "stage": "RequestReceived"},
                {**CREATED, "stage": "RequestReceived"}])  # fmt: skip
    assert calls.verbs == {"patch": 2, "patch (dry run)": 1, "discover": 1}
    assert (calls.children(1), calls.children(2)) == (1_800_000_002, None)


def test_a_log_is_read_on_in_the_file_that_replaces_a_full_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    following = Following(path)
    assert list(following.lines()) == []
    path.write_text('{"line": 1}\n{"li')
    assert list(following.lines()) == [{"line": 1}]
    with path.open("a") as log:
        log.write('ne": 2}\n')
    path.rename(tmp_path / "audit-1.log")
    path.write_text(json.dumps({"line": 3}) + "\n")
    assert list(following.lines()) == [{"line": 2}, {"line": 3}]
    following.close()


def test_a_profile_shows_functions_and_packages_with_most_time() -> None:
    main, send = "main (/a/src/isvc_operator/cli.py:1)", "send (/v/site-packages/aiohttp/client.py:2)"
    loads = "loads (/p/lib/python3.11/json/__init__.py:3)"
    text = f"{main};{send};{loads} 30\nWhere the rest\ncomes from.\n{main};{send} 70\n"
    assert summary(text).splitlines() == [
        "100 samples with work in them, 100 a second",
        "",
        "with what it calls:",
        " 30.0%  loads (json/__init__.py)",
        "",
        "by itself:",
        " 70.0%  send (aiohttp/client.py)",
        " 30.0%  loads (json/__init__.py)",
        "",
        "by itself, by package:",
        " 70.0%  aiohttp",
        " 30.0%  json",
    ]
