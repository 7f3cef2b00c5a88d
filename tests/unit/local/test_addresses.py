"""Services by their names in the cluster, and their local addresses."""

from __future__ import annotations

import pytest

from isvc.run.addresses import ServiceAddress, localize_addresses

PREDICTOR = ServiceAddress("first-predictor", "models", "127.0.0.1", {80: 40001, 8081: 40002})
HERE, GRPC = "127.0.0.1:40001", "127.0.0.1:40002"

MOVED = {
    "first-predictor": HERE,
    "first-predictor.models": HERE,
    "first-predictor.models.svc": HERE,
    "first-predictor.models.svc.cluster.local": HERE,
    "--predictor_host=first-predictor.models": f"--predictor_host={HERE}",
    "http://first-predictor.models/v1/models/m": f"http://{HERE}/v1/models/m",
    "http://first-predictor.models:80/": f"http://{HERE}/",
    "first-predictor.models:8081": GRPC,
    "first-predictor.models:9": "first-predictor.models:9",
    "first-predictor.other": "first-predictor.other",
    "the-first-predictor.models": "the-first-predictor.models",
    "first-predictor-2": "first-predictor-2",
    "another": "another",
}


@pytest.mark.parametrize(("text", "expected"), MOVED.items(), ids=MOVED.keys())
def test_a_cluster_name_becomes_a_local_address(text: str, expected: str) -> None:
    assert localize_addresses(text, [PREDICTOR]) == expected
