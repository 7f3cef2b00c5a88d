"""Requests to the API server, as values."""

from __future__ import annotations

import pytest
from yarl import URL

from isvc_operator.kube import requests
from isvc_operator.kube.requests import ApiRequest


@pytest.mark.parametrize(("previous", "text"), [(True, "true"), (False, "false")])
def test_the_last_lines_of_a_log(previous: bool, text: str) -> None:
    assert requests.pod_log("models", "p", "c", previous=previous, lines=10) == ApiRequest(
        method="GET",
        path="/api/v1/namespaces/models/pods/p/log",
        query=(("container", "c"), ("previous", text), ("tailLines", "10"), ("limitBytes", "65536")),
        reads_text=True,
    )


@pytest.mark.parametrize(
    ("namespace", "name", "path"),
    [
        ("a/../b", "x", "/api/v1/namespaces/a%2F..%2Fb/secrets/x"),
        ("team", "../pods/x?watch#y", "/api/v1/namespaces/team/secrets/..%2Fpods%2Fx%3Fwatch%23y"),
        ("team", "..", "/api/v1/namespaces/team/secrets/%252E%252E"),
        ("team", "http:bert:80", "/api/v1/namespaces/team/secrets/http:bert:80"),
    ],
)
def test_a_name_is_one_part_of_a_path_whatever_it_has(namespace: str, name: str, path: str) -> None:
    assert requests.get("Secret", namespace, name).path == path
    assert URL(f"https://api{path}").raw_path == path  # which aiohttp does not take apart
