"""What `isvc diagnose` says of a service on a cluster."""

from __future__ import annotations

import json
from typing import Any

from tests.support.isvc_process import on_cluster
from tests.support.namespace import Namespace


def assert_diagnosed(
    namespace: Namespace, name: str, reason: str, *words: str, fails: bool = True, log: bool | None = None
) -> None:
    """The first finding has the reason, these words of the cause, what to do and, if it is said, last log lines."""
    first = findings_on(namespace, name, fails=fails)[0]
    cause = " ".join(first["cause"].split())
    assert first["reason"] == reason, first
    assert [word for word in words if word not in cause] == [], cause
    assert first["fix"], first
    assert log in (None, bool(first.get("log"))), first


def findings_on(namespace: Namespace, name: str, *, fails: bool = True) -> list[dict[str, Any]]:
    """What is found, the cause first; the exit code says whether the service fails."""
    done = on_cluster(namespace, "diagnose", name, "--output=json")
    assert done.returncode == int(fails), done.stdout + done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings
