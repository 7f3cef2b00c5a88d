"""Services that the tests of the dashboard show, and what they respond."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from isvc.dashboard.tabs import TABS
from isvc.view.source import ServiceRequest, ServiceResponse
from tests.support.fake_services import FakeServices

SERVICES = FakeServices(began=datetime.now(UTC) - timedelta(seconds=60))
PATH = "/services/models/torchserve"
TAB_PATHS = [f"/{name}" if name else "" for name in TABS]
TIMING = "queue;dur=1.000, batch;dur=0.500, model;dur=6.000, transport;dur=0.500"


def respond(request: ServiceRequest) -> ServiceResponse:
    if request.path == "/v1/models":
        return ServiceResponse(status=200, headers={}, body=b'{"models": ["bert"]}', seconds=0.001)
    if request.method == "GET":
        return ServiceResponse(status=404, headers={}, body=b"{}", seconds=0.001)
    received = {"predictions": [len(json.loads(request.body)["instances"][0]["data"])]}
    return ServiceResponse(
        status=200, headers={"Server-Timing": TIMING}, body=json.dumps(received).encode(), seconds=0.01
    )


def classify(request: ServiceRequest) -> ServiceResponse:
    response = respond(request)
    if request.method == "GET":
        return response
    return replace(response, body=b'{"predictions": [{"lynx": 0.25, "tabby": 0.75}]}')
